// Whole files: read in one call, and replaced atomically.
#pragma once

#include <filesystem>
#include <string>

#include "kaon/engine/base/atomic_file.h"

namespace kaon::ops {

// The bytes of a regular file. Blocks. Throws IoError.
std::string read_file(const std::filesystem::path& file);

}  // namespace kaon::ops

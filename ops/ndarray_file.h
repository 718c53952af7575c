// Lists of arrays in MXNet's file format (.params, .nd).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

// Arrays with their names, in file order; names are empty in a plain list.
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

namespace nd_file {

// Which of MXNet's formats to write: 2 (0.12 to 1.9), 0 and 1 (older releases), 3 (numpy shapes, 1.6 on).
struct SaveOptions {
  int version = 2;
};

// Writes to a temporary file beside `file` and renames it, so a crash leaves the old file. Blocks until the arrays are
// computed. Every array is marked as one of cpu(0), so a file that was written for the CPU and loaded is given back
// byte for byte in its version. An undefined handle is written as MXNet's "none". V2 has no word for an array without
// dimensions: that one is written as V3, which MXNet reads under numpy shapes only; versions 0 and 1 refuse it.
// Throws IoError, and ValueError for a version or an array that cannot be written.
KAON_API void save(const std::filesystem::path& file, const NamedArrays& arrays, SaveOptions options = {});
KAON_API std::string save_to_bytes(const NamedArrays& arrays, SaveOptions options = {});

// Reads V0, V1, V2 and V3, also mixed; an array saved on a GPU loads to the CPU, a "none" as an undefined handle.
// Throws IoError naming file, offset, what was expected and found, also for sparse arrays, which sparse::load reads;
// never trusts a size in the file beyond the bytes that are there. Blocks while it reads.
KAON_API NamedArrays load(const std::filesystem::path& file);
KAON_API NamedArrays load_from_bytes(std::string_view bytes, const std::string& source = "bytes");

}  // namespace nd_file
}  // namespace kaon

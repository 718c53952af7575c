// The header of a safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kaon/interchange/file/file_bytes.h"
#include "kaon/interchange/safetensors.h"

namespace kaon::interchange {

struct SafetensorsHeader {
  std::vector<safetensors::TensorInfo> tensors;  // by their place in the file
  std::map<std::string, std::string> metadata;
};

// Checks everything that the format says. Throws IoError.
SafetensorsHeader read_safetensors_header(const FileBytes& file);

// Nothing for a dtype that Kaon lacks.
std::optional<DType> safetensors_dtype(std::string_view name);
std::string_view safetensors_name(DType dtype);

// The files that an index names. Throws IoError.
std::set<std::string> safetensors_index_files(const std::filesystem::path& index);

}  // namespace kaon::interchange

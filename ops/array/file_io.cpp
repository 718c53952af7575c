#include "kaon/ops/array/file_io.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "kaon/engine/error.h"

namespace kaon::ops {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw IoError(fmt::format("{}: {}", file.string(), error ? error.message() : "expected a regular file"));
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(fmt::format("{}: cannot open: {}", file.string(), std::strerror(errno)));
  const auto bytes = fs::file_size(file, error);
  std::string text(error ? 0 : size_t(bytes), '\0');
  in.read(text.data(), std::streamsize(text.size()));
  if (error || size_t(in.gcount()) != text.size()) {
    throw IoError(fmt::format("{}: expected {} bytes, could read {}", file.string(), text.size(), in.gcount()));
  }
  return text;
}

}  // namespace kaon::ops

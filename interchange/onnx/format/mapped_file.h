// MappedFile: the bytes of a file in memory that the system fills as they are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace kaon::onnx::format {

// A private mapping: what the program writes to the bytes stays in this process and never reaches the file. Others must
// not make the file shorter meanwhile, as for every mapping. Thread safety: immutable.
class MappedFile {
 public:
  // Throws IoError naming the file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {begin_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::byte* begin, size_t size)
      : path_(std::move(path)), begin_(begin), size_(size) {}
  std::filesystem::path path_;
  std::byte* begin_;
  size_t size_;
};

}  // namespace kaon::onnx::format

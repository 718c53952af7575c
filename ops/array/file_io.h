// Whole files: read in one call, and replaced atomically.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace kaon::ops {

// The bytes of a regular file. Blocks. Throws IoError.
std::string read_file(const std::filesystem::path& file);

// Writes beside `file` and renames at the end, so that a crash or an error leaves the old file as it was.
// All functions block and throw IoError. Thread safety: one thread at a time.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& file);
  ~AtomicFile();  // without commit: removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();  // the bytes are on disk before they take the name

 private:
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
};

}  // namespace kaon::ops

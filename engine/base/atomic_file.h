// Files that are written: replaced as a whole, or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace kaon::engine {

// Writes bytes that have no name yet, or a temporary one beside `file`, and takes the name at the end: a crash, a kill
// or an error at any moment leaves the old file as it was, or the new one whole. Where the file system can, nothing is
// left behind by a kill.
// All functions block and throw IoError. Thread safety: one thread at a time.
class AtomicFile {
 public:
  // A symbolic link stays, and the file that it names is replaced.
  explicit AtomicFile(const std::filesystem::path& file);
  ~AtomicFile();  // without commit: removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  // The bytes are on disk before they take the name, and the name is on disk when this returns.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
  bool has_name_ = false;  // the temporary one
};

// A whole file in one call.
void write_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace kaon::engine

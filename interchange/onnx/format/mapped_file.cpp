#include "kaon/interchange/onnx/format/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kaon/engine/error.h"

namespace kaon::onnx::format {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto fail = [&](const char* what) -> IoError {
    return IoError(fmt::format("[onnx] {}: {}: {}", path.string(), what, std::strerror(errno)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw fail("cannot be opened");
  struct stat info {};
  if (fstat(file, &info) != 0) {
    const IoError error = fail("cannot be read");
    close(file);
    throw error;
  }
  if (!S_ISREG(info.st_mode)) {
    close(file);
    throw IoError(fmt::format("[onnx] {}: expected a regular file", path.string()));
  }
  const size_t size = size_t(info.st_size);
  void* begin = nullptr;
  if (size > 0) {
    // writable and private: arrays over it may be trained, which copies the pages that are written to
    begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  }
  const int code = errno;
  close(file);
  if (begin == MAP_FAILED) {
    errno = code;
    throw fail("cannot be mapped");
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<std::byte*>(begin), size));
}

MappedFile::~MappedFile() {
  if (begin_) munmap(begin_, size_);
}

}  // namespace kaon::onnx::format

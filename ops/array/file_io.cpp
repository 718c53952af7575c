#include "kaon/ops/array/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

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

AtomicFile::AtomicFile(const fs::path& file) : file_(file) {
  std::error_code error;
  if (fs::is_symlink(file_, error)) {  // the file that the link names is replaced, and the link stays
    const fs::path target = fs::canonical(file_, error);
    if (!error) file_ = target;
  }
  if (fs::exists(file_, error) && !fs::is_regular_file(file_, error)) {
    throw IoError(fmt::format("{}: expected a regular file to replace", file_.string()));
  }
  static std::atomic<unsigned> counter{0};
  temporary_ = file_;
  temporary_ += fmt::format(".{}.{}.tmp", getpid(), counter.fetch_add(1));
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const {
  throw IoError(
      fmt::format("{}: {} {}: {}", file_.string(), what, temporary_.filename().string(), std::strerror(errno)));
}

void AtomicFile::write(const void* data, size_t bytes) {
  auto* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, p, bytes);
    if (n < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    p += n;
    bytes -= size_t(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) fail("cannot flush");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("cannot close");
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot rename");
  temporary_.clear();
}

}  // namespace kaon::ops

#include "kaon/engine/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kaon/engine/error.h"

namespace kaon::engine {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

}  // namespace

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
  // without a name, which not all file systems know; it needs /proc to get one
  if (::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = ::open(folder_of(file_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  }
  if (descriptor_ >= 0) return;
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot create");
  has_name_ = true;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (has_name_) ::unlink(temporary_.c_str());
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
  if (!has_name_) {
    const std::string own = fmt::format("/proc/self/fd/{}", descriptor_);
    if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail("cannot name");
    has_name_ = true;
  }
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("cannot close");
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot rename");
  has_name_ = false;
  // The name is a change of the folder. Where that may not be opened or flushed, the system writes it in its own time.
  const int folder = ::open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  const bool failed = ::fsync(folder) != 0 && (errno == EIO || errno == ENOSPC);
  ::close(folder);
  if (failed) fail("cannot flush the folder of");
}

void write_file(const fs::path& file, std::string_view bytes) {
  AtomicFile out(file);
  out.write(bytes.data(), bytes.size());
  out.commit();
}

}  // namespace kaon::engine

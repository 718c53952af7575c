#include "kaon/engine/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kaon/engine/error.h"

namespace kaon::engine {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxNames = 1000;  // of saves of one file at the same time

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

fs::path temporary_name(const fs::path& file, int number) {
  fs::path name = file;
  return name += fmt::format(".kaon-{}.tmp", number);
}

// A save holds the lock of its temporary file until that has lost its name; the system gives it up with the process.
bool try_lock(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

// Whether the name is still that of the open file.
bool has_name(int descriptor, const fs::path& name) {
  struct stat own, named;
  return ::fstat(descriptor, &own) == 0 && ::lstat(name.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

// Removes what a save has left under a temporary name and whose process is gone. False: the name is in use, or the file
// system has no locks.
bool remove_left(const fs::path& name) {
  const int descriptor = ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return errno == ENOENT;
  // under the lock nobody else removes it, so that the name cannot become that of another file
  const bool is_free = try_lock(descriptor) && (!has_name(descriptor, name) || ::unlink(name.c_str()) == 0);
  ::close(descriptor);
  return is_free;
}

// A new file under the first temporary name that is free; below 0, with errno: none.
int create_named(const fs::path& file, fs::path& name) {
  for (int number = 0; number < kMaxNames;) {
    name = temporary_name(file, number);
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) return descriptor;
    if (descriptor < 0) {
      if (!remove_left(name)) ++number;
      continue;
    }
    const bool is_removed = !try_lock(descriptor) && errno == EWOULDBLOCK;  // by another save, before the lock
    if (!is_removed && has_name(descriptor, name)) return descriptor;
    ::close(descriptor);
  }
  errno = EEXIST;
  return -1;
}

// Gives an open file the first temporary name that is free. False, with errno: none.
bool name_it(int descriptor, const fs::path& file, fs::path& name) {
  const std::string own = fmt::format("/proc/self/fd/{}", descriptor);
  for (int number = 0; number < kMaxNames;) {
    name = temporary_name(file, number);
    if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno != EEXIST) return false;
    if (!remove_left(name)) ++number;
  }
  errno = EEXIST;
  return false;
}

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
  temporary_ = temporary_name(file_, 0);
  // without a name, which not all file systems know; it needs /proc to get one
  if (::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = ::open(folder_of(file_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  }
  if (descriptor_ >= 0) {
    try_lock(descriptor_);
    return;
  }
  descriptor_ = create_named(file_, temporary_);
  if (descriptor_ < 0) fail("cannot create");
  has_name_ = true;
}

AtomicFile::~AtomicFile() {
  if (has_name_) ::unlink(temporary_.c_str());  // under the lock
  if (descriptor_ >= 0) ::close(descriptor_);
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
    if (!name_it(descriptor_, file_, temporary_)) fail("cannot name");
    has_name_ = true;
  }
  // the second descriptor keeps the lock; what closing fails by must not take the name
  const int written = std::exchange(descriptor_, ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0));
  if (::close(written) != 0 || descriptor_ < 0) fail("cannot close");
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot rename");
  has_name_ = false;
  ::close(std::exchange(descriptor_, -1));
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

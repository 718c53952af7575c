#include "kaon/gluon/data/internal/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kaon/engine/error.h"

namespace kaon::gluon::data::detail {
namespace {

uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& file) : file_(file) {
  descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw IoError(fmt::format("[recordio] {}: cannot open: {}", file.string(), std::strerror(error)));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw IoError(fmt::format("[recordio] {}: expected a regular file", file.string()));
  }
  size_ = uint64_t(status.st_size);
}

RecordFile::~RecordFile() { ::close(descriptor_); }

void RecordFile::fail(uint64_t at, const std::string& what) const {
  throw IoError(fmt::format("[recordio] {}: record at byte {}: {}", file_.string(), at, what));
}

void RecordFile::read_bytes(uint64_t at, void* out, uint64_t bytes) const {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(descriptor_, static_cast<char*>(out) + done, bytes - done, off_t(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(at, std::strerror(errno));
    if (n == 0) fail(at, "the file has become shorter");
    done += uint64_t(n);
  }
}

std::optional<RecordFile::Part> RecordFile::head(uint64_t& at, uint64_t begin) const {
  if (at == size_) return std::nullopt;
  if (at > size_ || size_ - at < 8) {
    fail(begin, fmt::format("expected the 8 bytes of a head at byte {}, the file has {}", at, size_));
  }
  uint32_t words[2];
  read_bytes(at, words, sizeof words);
  if (words[0] != record_magic) {
    fail(begin, fmt::format("expected the magic number {:08x} at byte {}, got {:08x}", record_magic, at, words[0]));
  }
  const uint32_t part = words[1] >> 29;
  const uint64_t bytes = words[1] & most_record_bytes;
  if (part > uint32_t(RecordPart::last))
    fail(begin, fmt::format("expected a part 0 to 3 at byte {}, got {}", at + 4, part));
  at += 8;
  if (size_ - at < padded(bytes)) {
    fail(begin, fmt::format("truncated: expected {} bytes from byte {} on, the file has {}", padded(bytes), at, size_));
  }
  return Part{RecordPart(part), bytes};
}

std::optional<std::string> RecordFile::read(uint64_t& at) const {
  const uint64_t begin = at;
  std::string record;
  for (bool is_first = true;; is_first = false) {
    const std::optional<Part> part = head(at, begin);
    if (!part) {
      if (is_first) return std::nullopt;
      fail(begin, fmt::format("expected its next part at byte {}, got the end of the file", at));
    }
    if (is_first != (part->part == RecordPart::whole || part->part == RecordPart::first)) {
      fail(begin, fmt::format("expected {} part at byte {}, got part {}", is_first ? "a first" : "a later", at - 8,
                              uint32_t(part->part)));
    }
    const size_t old = record.size();
    record.resize(old + part->bytes);
    read_bytes(at, record.data() + old, part->bytes);
    at += padded(part->bytes);
    if (part->part == RecordPart::whole || part->part == RecordPart::last) return record;
    record.append(reinterpret_cast<const char*>(&record_magic), sizeof record_magic);  // what was cut out
  }
}

bool RecordFile::pass(uint64_t& at) const {
  const uint64_t begin = at;
  for (;;) {
    const std::optional<Part> part = head(at, begin);
    if (!part && at == begin) return false;
    if (!part) fail(begin, fmt::format("expected its next part at byte {}, got the end of the file", at));
    at += padded(part->bytes);
    if (part->part == RecordPart::whole || part->part == RecordPart::last) return true;
  }
}

}  // namespace kaon::gluon::data::detail

// RecordFile: a file of records that any thread may read at any place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kaon::gluon::data {

namespace detail {

inline constexpr uint32_t record_magic = 0xced7230a;
inline constexpr uint64_t most_record_bytes = (uint64_t(1) << 29) - 1;

// The word behind the magic number: which part of a record follows, and its length.
enum class RecordPart : uint32_t { whole, first, middle, last };
inline uint32_t record_word(RecordPart part, uint64_t bytes) { return uint32_t(part) << 29 | uint32_t(bytes); }

// Thread safety: immutable; any thread. Blocks.
class RecordFile {
 public:
  explicit RecordFile(const std::filesystem::path& file);  // throws IoError, as read does
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // The record that begins at byte `at`; nothing at the end of the file. `at` moves behind it.
  std::optional<std::string> read(uint64_t& at) const;
  // Moves behind the record, of which nothing but lengths is read. False at the end.
  bool pass(uint64_t& at) const;
  const std::filesystem::path& file() const { return file_; }

 private:
  struct Part {
    RecordPart part;
    uint64_t bytes;
  };
  std::optional<Part> head(uint64_t& at, uint64_t begin) const;  // nothing at the end of the file
  void read_bytes(uint64_t at, void* out, uint64_t bytes) const;
  [[noreturn]] void fail(uint64_t at, const std::string& what) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace detail
}  // namespace kaon::gluon::data

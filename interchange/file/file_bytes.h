// The bytes of a file that is read: mapped into memory, each access checked against their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kaon/ops/ndarray.h"

namespace kaon::interchange {

static_assert(std::endian::native == std::endian::little, "files are read as little-endian");

// A handle: copies are the same bytes, which live as long as a handle or an array over them does. Thread safety: any
// thread.
class FileBytes {
 public:
  FileBytes() = default;
  // Maps a regular file: pages are read when they are looked at, and what programs write into arrays over them never
  // reaches the file. Replacing the file by another (a rename) changes nothing; cutting it short makes a later look at
  // the bytes that are gone end the process, as with any mapping. Throws IoError.
  static FileBytes map(const std::filesystem::path& file);
  // A copy, called `name` in errors.
  static FileBytes copy_of(std::string_view bytes, std::string name);
  static FileBytes owning(std::string bytes, std::string name);  // the bytes themselves

  const std::string& name() const;
  uint64_t size() const;
  std::string_view view() const;  // all bytes

  // `bytes` bytes from offset `at`. Throws IoError where they are not all there; `what` names them.
  std::string_view part(uint64_t at, uint64_t bytes, std::string_view what) const;
  // A little-endian number at offset `at`. Throws as part() does.
  template <class T>
  T number(uint64_t at, std::string_view what) const {
    T value;
    std::memcpy(&value, part(at, sizeof(T), what).data(), sizeof(T));
    return value;
  }
  // An array of the elements at offset `at`, as array_over() makes it. Its pages leave the memory of the process with
  // the last array over them. Arrays over the same bytes are ordered one by one: where they overlap, make
  // one, and views of it (view_of). Throws IoError for a shape whose bytes are not all there.
  NDArray array(uint64_t at, const Shape& shape, DType dtype, std::string_view what) const;

  // Throws IoError: "<name>: at byte <at>: expected <expected>, found <found>".
  [[noreturn]] void fail(uint64_t at, std::string_view expected, std::string_view found) const;

 private:
  struct Node;
  explicit FileBytes(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  std::shared_ptr<Node> node_;
};

// The number of bytes of an array; throws IoError, as fail() at `at` does, for a dimension below 0 and where they are
// 2^63 or more, also were dimensions of 0 left out.
uint64_t bytes_of(const FileBytes& file, uint64_t at, const Shape& shape, DType dtype);

// An array of the elements at `data` in a private mapping, row-major and little-endian: over them without a copy where
// they begin on a cache line, or are aligned for the dtype and more than 4 MiB; else a copy. Bytes of bool other than 0
// become 1. Where it is over them, `keep` is called first, and what it returns when nobody uses the array any more.
// Unlike other memory of the program's, such an array changes by operators alone, so that plans keep what they make of
// it, such as weights in the layout of a kernel.
NDArray array_over(char* data, const Shape& shape, DType dtype, engine::FunctionRef<std::function<void()>()> keep);

// Part of an array's memory under another shape and dtype: shares memory and order with it. The bytes must be inside
// of the array and aligned for the dtype.
NDArray view_of(const NDArray& array, uint64_t first_byte, const Shape& shape, DType dtype);

// Reads one after another, for formats without a table of offsets.
class ByteReader {
 public:
  ByteReader(FileBytes file, uint64_t at, uint64_t end) : file_(std::move(file)), at_(at), end_(end) {}
  explicit ByteReader(const FileBytes& file) : ByteReader(file, 0, file.size()) {}

  const FileBytes& file() const { return file_; }
  uint64_t offset() const { return at_; }
  uint64_t remaining() const { return end_ - at_; }
  std::string_view take(uint64_t bytes, std::string_view what) {
    if (bytes > remaining()) fail_short(bytes, what);
    const std::string_view part = file_.part(at_, bytes, what);
    at_ += bytes;
    return part;
  }
  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  // Up to the next '\n', which is not part of the result.
  std::string_view line(std::string_view what);
  [[noreturn]] void fail(uint64_t at, std::string_view expected, std::string_view found) const {
    file_.fail(at, expected, found);
  }

 private:
  [[noreturn]] void fail_short(uint64_t bytes, std::string_view what) const;
  FileBytes file_;
  uint64_t at_, end_;
};

}  // namespace kaon::interchange

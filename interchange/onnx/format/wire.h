// The wire format of protocol buffers, read and written: a message is a list of fields, each a number and a value.
// There is no schema compiler: ONNX's messages are read by the numbers of its published schema (onnx.proto), and large
// fields stay where they are in the mapped file, which generated classes would copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kaon::onnx::format {

using Bytes = std::span<const std::byte>;

// The fields of one message, in the order of the file. Every function throws IoError, naming the file and the offset,
// for bytes that are not of the format.
class WireReader {
 public:
  WireReader(Bytes message, const std::string& file) : WireReader(message, message.data(), file, 0) {}

  // Reads the key of the next field; false at the end of the message.
  bool next();
  uint32_t field() const { return field_; }
  // The value of the field that next() found: one of these, once.
  int64_t integer();
  float float32();
  double float64();
  Bytes bytes();
  std::string_view text();
  WireReader message();  // at most 100 inside one another
  void skip();
  // Values of a repeated field, alone or packed.
  void integers(std::vector<int64_t>& to);
  void floats(std::vector<float>& to);
  // The elements of a repeated fixed-size field, as they are in the file.
  Bytes fixed(size_t size);

  size_t offset() const { return size_t(at_ - begin_); }  // in the file
  size_t left() const { return size_t(end_ - at_); }
  Bytes rest() const { return {at_, left()}; }  // of the message
  [[noreturn]] void fail(const std::string& why) const;

 private:
  WireReader(Bytes message, const std::byte* begin, const std::string& file, int depth)
      : begin_(begin), at_(message.data()), end_(message.data() + message.size()), file_(&file), depth_(depth) {}
  uint64_t varint();
  const std::byte* take(uint64_t size);
  void expect(uint32_t type) const;

  const std::byte* begin_;  // of the file
  const std::byte* at_;
  const std::byte* end_;
  const std::string* file_;
  int depth_;
  uint32_t field_ = 0, type_ = 0;
};

// Builds a message.
class WireWriter {
 public:
  void integer(uint32_t field, int64_t value);
  void float32(uint32_t field, float value);
  void bytes(uint32_t field, Bytes value);
  void text(uint32_t field, std::string_view value);
  void message(uint32_t field, const WireWriter& value) { text(field, value.data()); }
  void integers(uint32_t field, std::span<const int64_t> values);  // packed
  void floats(uint32_t field, std::span<const float> values);      // packed
  const std::string& data() const { return data_; }
  static size_t varint_size(uint64_t value);  // bytes of a length or key

 private:
  void varint(uint64_t value);
  void key(uint32_t field, uint32_t type) { varint(uint64_t(field) << 3 | type); }
  std::string data_;
};

}  // namespace kaon::onnx::format

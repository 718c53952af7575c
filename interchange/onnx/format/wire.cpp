#include "kaon/interchange/onnx/format/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "kaon/engine/error.h"

namespace kaon::onnx::format {

static_assert(std::endian::native == std::endian::little, "fields are used as they are in the file");

namespace {
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr int kMaxDepth = 100;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
}  // namespace

void WireReader::fail(const std::string& why) const {
  throw IoError(fmt::format("[onnx] {}: offset {}: {}", *file_, offset(), why));
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) fail("the message ends inside a number");
    const uint64_t byte = uint64_t(*at_++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than 10 bytes");
}

const std::byte* WireReader::take(uint64_t size) {
  if (size > left()) fail(fmt::format("a field of {} bytes, of which {} are there", size, left()));
  const std::byte* from = at_;
  at_ += size;
  return from;
}

bool WireReader::next() {
  if (at_ == end_) return false;
  const uint64_t key = varint();
  if (key >> 3 == 0 || key >> 32 != 0) fail(fmt::format("{} is no key of a field", key));
  field_ = uint32_t(key >> 3);
  type_ = uint32_t(key & 7);
  return true;
}

void WireReader::expect(uint32_t type) const {
  if (type_ != type) fail(fmt::format("field {} has wire type {}, expected {}", field_, type_, type));
}

int64_t WireReader::integer() {
  expect(kVarint);
  return int64_t(varint());
}

float WireReader::float32() {
  expect(kFixed32);
  return load<float>(take(4));
}

double WireReader::float64() {
  expect(kFixed64);
  return load<double>(take(8));
}

Bytes WireReader::bytes() {
  expect(kBytes);
  const uint64_t size = varint();
  return {take(size), size_t(size)};
}

std::string_view WireReader::text() {
  const Bytes b = bytes();
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

WireReader WireReader::message() {
  if (depth_ == kMaxDepth) fail(fmt::format("more than {} messages inside one another", kMaxDepth));
  return WireReader(bytes(), begin_, *file_, depth_ + 1);
}

void WireReader::skip() {
  switch (type_) {
    case kVarint: varint(); return;
    case kFixed64: take(8); return;
    case kBytes: bytes(); return;
    case kFixed32: take(4); return;
    default: fail(fmt::format("field {} has the unknown wire type {}", field_, type_));
  }
}

void WireReader::integers(std::vector<int64_t>& to) {
  if (type_ == kVarint) return to.push_back(integer());
  WireReader packed(bytes(), begin_, *file_, depth_);
  while (packed.left() > 0) to.push_back(int64_t(packed.varint()));
}

void WireReader::floats(std::vector<float>& to) {
  const Bytes all = fixed(sizeof(float));
  for (size_t i = 0; i < all.size(); i += sizeof(float)) to.push_back(load<float>(all.data() + i));
}

Bytes WireReader::fixed(size_t size) {
  if (type_ == (size == 4 ? kFixed32 : kFixed64)) return {take(size), size};
  const Bytes all = bytes();
  if (all.size() % size != 0) fail(fmt::format("{} bytes are no list of numbers of {} bytes", all.size(), size));
  return all;
}

void WireWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) data_.push_back(char(value | 0x80));
  data_.push_back(char(value));
}

size_t WireWriter::varint_size(uint64_t value) {
  size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

void WireWriter::integer(uint32_t field, int64_t value) {
  key(field, kVarint);
  varint(uint64_t(value));
}

void WireWriter::float32(uint32_t field, float value) {
  key(field, kFixed32);
  data_.append(reinterpret_cast<const char*>(&value), 4);
}

void WireWriter::text(uint32_t field, std::string_view value) {
  key(field, kBytes);
  varint(value.size());
  data_.append(value);
}

void WireWriter::bytes(uint32_t field, Bytes value) {
  text(field, {reinterpret_cast<const char*>(value.data()), value.size()});
}

void WireWriter::integers(uint32_t field, std::span<const int64_t> values) {
  WireWriter packed;
  for (int64_t v : values) packed.varint(uint64_t(v));
  text(field, packed.data());
}

void WireWriter::floats(uint32_t field, std::span<const float> values) { bytes(field, std::as_bytes(values)); }

}  // namespace kaon::onnx::format

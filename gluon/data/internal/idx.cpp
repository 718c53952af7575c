#include "kaon/gluon/data/internal/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "kaon/ops/array/file_io.h"

namespace kaon::gluon::data {

using namespace graph;
namespace {

[[noreturn]] void fail(const std::string& name, uint64_t offset, const std::string& what) {
  throw IoError(fmt::format("[read_idx] {}: at byte {}: {}", name, offset, what));
}

// A source of the format's bytes.
class Source {
 public:
  virtual ~Source() = default;
  virtual size_t read(void* out, size_t bytes) = 0;  // fewer at the end
  virtual uint64_t at_most_left() const = 0;         // upper bound of the bytes left
};

class PlainSource : public Source {
 public:
  explicit PlainSource(std::string_view bytes) : left_(bytes) {}
  size_t read(void* out, size_t bytes) override {
    const size_t n = std::min(bytes, left_.size());
    if (n) std::memcpy(out, left_.data(), n);
    left_.remove_prefix(n);
    return n;
  }
  uint64_t at_most_left() const override { return left_.size(); }

 private:
  std::string_view left_;
};

// One gzip member; zlib checks its checksum and length at the end.
class GzipSource : public Source {
 public:
  GzipSource(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw MemoryError("[read_idx] zlib cannot start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(void* out, size_t bytes) override {
    size_t done = 0;
    while (done < bytes && !ended_) {
      constexpr size_t most = std::numeric_limits<uInt>::max();
      const size_t room = std::min(bytes - done, most), offered = std::min(bytes_.size() - used_, most);
      stream_.next_out = static_cast<Bytef*>(out) + done;
      stream_.avail_out = uInt(room);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data())) + used_;
      stream_.avail_in = uInt(offered);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      used_ += offered - stream_.avail_in;
      const size_t made = room - stream_.avail_out;
      done += made;
      if (result == Z_STREAM_END) {
        ended_ = true;
        if (used_ != bytes_.size()) fail(name_, used_, "expected the end of the file after the gzip data");
      } else if (result == Z_BUF_ERROR || (result == Z_OK && made == 0 && used_ == bytes_.size())) {
        fail(name_, used_, "expected more gzip data, got the end of the file");
      } else if (result != Z_OK) {
        fail(name_, used_, fmt::format("expected valid gzip data: {}", stream_.msg ? stream_.msg : "corrupt"));
      }
    }
    return done;
  }
  uint64_t at_most_left() const override {
    constexpr uint64_t deflate_limit = 1032;  // deflate cannot make more bytes out of one
    return (bytes_.size() - used_ + 1) * deflate_limit + (1 << 16);
  }

 private:
  std::string_view bytes_;
  const std::string& name_;
  z_stream stream_{};
  size_t used_ = 0;
  bool ended_ = false;
};

uint32_t big_endian(const unsigned char* b) {
  return uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | b[3];
}

std::optional<DType> dtype_of_code(int code) {
  switch (code) {
    case 0x08: return DType::uint8;
    case 0x09: return DType::int8;
    case 0x0b: return DType::int16;
    case 0x0c: return DType::int32;
    case 0x0d: return DType::float32;
    case 0x0e: return DType::float64;
    default: return std::nullopt;
  }
}

void to_host_order(std::byte* data, size_t bytes, size_t element) {
  if (std::endian::native == std::endian::big || element == 1) return;
  for (size_t i = 0; i < bytes; i += element) std::reverse(data + i, data + i + element);
}

HostTensor read(Source& in, const std::string& name) {
  unsigned char head[4 + 4 * Shape::max_ndim];
  if (size_t got = in.read(head, 4); got < 4) {
    fail(name, got, "expected the 4 bytes of the magic number, got the end of the file");
  }
  const auto dtype = dtype_of_code(head[2]);
  if (head[0] != 0 || head[1] != 0 || !dtype || head[3] == 0 || head[3] > Shape::max_ndim) {
    fail(name, 0,
         fmt::format(
             "expected the magic number 00 00, 08 09 0b 0c 0d or 0e, 01 to {:02x}; got {:02x} {:02x} {:02x} {:02x}",
             int(Shape::max_ndim), head[0], head[1], head[2], head[3]));
  }
  const size_t ndim = head[3];
  if (size_t got = in.read(head + 4, 4 * ndim); got < 4 * ndim) {
    fail(name, 4 + got, fmt::format("expected {} dimensions of 4 bytes, got the end of the file", ndim));
  }
  Shape shape;
  bool is_empty = false;
  for (size_t d = 0; d < ndim; ++d) {
    shape.push_back(big_endian(head + 4 + 4 * d));
    is_empty |= shape.back() == 0;
  }
  const uint64_t begin = 4 + 4 * ndim;
  // an empty tensor takes no bytes, but its other dimensions must stay countable
  const uint64_t limit = is_empty ? uint64_t(1) << 40 : in.at_most_left();
  uint64_t bytes = size_of(*dtype);
  for (int64_t n : shape) {
    if (n == 0) continue;
    if (bytes > limit / uint64_t(n)) {
      fail(name, begin, fmt::format("expected the elements of shape {}, can get at most {} bytes", shape.str(), limit));
    }
    bytes *= uint64_t(n);
  }
  if (is_empty) bytes = 0;

  HostTensor tensor(shape, *dtype);
  if (size_t got = in.read(tensor.mutable_data(), bytes); got < bytes) {
    fail(name, begin + got, fmt::format("expected {} bytes of elements of shape {}, got {}", bytes, shape.str(), got));
  }
  char more;
  if (in.read(&more, 1) != 0) {
    fail(name, begin + bytes,
         fmt::format("expected the end after the elements of shape {}, got more bytes", shape.str()));
  }
  to_host_order(tensor.mutable_data(), bytes, size_of(*dtype));
  return tensor;
}

}  // namespace

HostTensor parse_idx(std::string_view bytes, const std::string& name) {
  if (bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b') {
    GzipSource in(bytes, name);
    return read(in, name);
  }
  PlainSource in(bytes);
  return read(in, name);
}

HostTensor read_idx(const std::filesystem::path& file) { return parse_idx(read_file(file), file.string()); }

}  // namespace kaon::gluon::data

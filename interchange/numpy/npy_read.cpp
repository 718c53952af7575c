#include <fmt/format.h>

#include <charconv>

#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/numpy/npy_format.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::interchange {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr uint64_t max_header_bytes = 1 << 20;

// Reads the literal of a Python dictionary that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),
// }
class LiteralReader {
 public:
  LiteralReader(const FileBytes& file, uint64_t at, std::string_view text) : file_(file), begin_(at), text_(text) {}

  void run(npy::Header& header) {
    bool has_dtype = false, has_order = false, has_shape = false;
    expect('{');
    while (!skip('}')) {
      const uint64_t key_at = place();
      const std::string key = text();
      expect(':');
      bool* seen = key == "descr"           ? &has_dtype
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (!seen || *seen) {
        file_.fail(key_at, "the keys 'descr', 'fortran_order' and 'shape', each once", fmt::format("'{}'", key));
      }
      *seen = true;
      if (seen == &has_dtype) {
        if (spaces(); at_ < text_.size() && text_[at_] == '[') fail("a dtype of one number", "a structure of several");
        header.dtype = text();
      } else if (seen == &has_order) {
        header.fortran_order = boolean();
      } else {
        shape(header.shape);
      }
      if (!skip(',')) {
        expect('}');
        break;
      }
    }
    spaces();
    if (at_ != text_.size()) fail("the end of the header", "more text");
    if (!has_dtype || !has_order || !has_shape) {
      file_.fail(begin_, "the keys 'descr', 'fortran_order' and 'shape'", "not all of them");
    }
  }

 private:
  uint64_t place() const { return begin_ + at_; }
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail(place(), expected, found);
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool skip(char c) {
    spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!skip(c)) fail(fmt::format("'{}'", c), found());
  }
  std::string found() const {
    if (at_ >= text_.size()) return "the end of the header";
    const auto c = uint8_t(text_[at_]);
    return c >= 32 && c < 127 ? fmt::format("'{}'", char(c)) : fmt::format("byte {:#04x}", c);
  }
  std::string text() {
    spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail("a text in quotes", found());
    const size_t end = text_.find(quote, at_ + 1);
    const std::string_view inside = text_.substr(at_ + 1, end == std::string_view::npos ? 0 : end - at_ - 1);
    if (end == std::string_view::npos || inside.find('\\') != std::string_view::npos || inside.size() > 200) {
      fail("a text of at most 200 plain characters", end == std::string_view::npos ? "no end of it" : "another one");
    }
    at_ = end + 1;
    return std::string(inside);
  }
  bool boolean() {
    spaces();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False", found());
  }
  void shape(Shape& shape) {
    expect('(');
    while (!skip(')')) {
      spaces();
      const uint64_t number_at = place();
      int64_t dim = -1;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) file_.fail(number_at, "a dimension from 0 to 2^63 - 1", found());
      at_ += size_t(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // of Python 2
      if (shape.ndim() == Shape::max_ndim) {
        file_.fail(number_at, fmt::format("at most {} dimensions", Shape::max_ndim), "more");
      }
      shape.push_back(dim);
      if (!skip(',')) {
        expect(')');
        break;
      }
    }
  }

  const FileBytes& file_;
  uint64_t begin_;
  std::string_view text_;
  size_t at_ = 0;
};

std::string_view meaning_of(std::string_view dtype) {
  const size_t kind = dtype.find_first_not_of("<>|=");
  switch (kind == std::string_view::npos ? ' ' : dtype[kind]) {
    case 'c': return "complex numbers";
    case 'O': return "Python's objects, which only running code could read";
    case 'S':
    case 'a':
    case 'U': return "texts";
    case 'M':
    case 'm': return "dates";
    default: return "a dtype that Kaon lacks";
  }
}

}  // namespace

std::optional<NpyDType> npy_dtype(std::string_view text) {
  constexpr std::pair<std::string_view, DType> known[] = {
      {"f4", DType::float32},  {"f8", DType::float64}, {"f2", DType::float16}, {"u1", DType::uint8},
      {"i4", DType::int32},    {"i1", DType::int8},    {"i8", DType::int64},   {"b1", DType::boolean},
      {"i2", DType::int16},    {"u2", DType::uint16},  {"u4", DType::uint32},  {"u8", DType::uint64},
      {"V2", DType::bfloat16}, {"?", DType::boolean},  {"b", DType::int8},     {"B", DType::uint8}};
  const bool is_swapped = text.starts_with('>');
  if (!text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos) text.remove_prefix(1);
  for (const auto& [name, dtype] : known) {
    if (name == text) return NpyDType{dtype, is_swapped && size_of(dtype) > 1};
  }
  return std::nullopt;
}

npy::Header read_npy_header(const FileBytes& file, uint64_t at, uint64_t end) {
  ByteReader in(file, at, end);
  if (in.take(magic.size(), "the magic text of an npy file") != magic) {
    in.fail(at, "the magic text of an npy file, \\x93NUMPY", "other bytes");
  }
  npy::Header header;
  header.version = in.number<uint8_t>("the version of the format");
  if (in.number<uint8_t>("the version of the format"); header.version < 1 || header.version > 3) {
    in.fail(at + magic.size(), "version 1, 2 or 3 of the format", fmt::format("{}", header.version));
  }
  const uint64_t length_at = in.offset();
  const uint64_t length = header.version == 1 ? in.number<uint16_t>("the length of the header")
                                              : in.number<uint32_t>("the length of the header");
  if (length > max_header_bytes) {
    in.fail(length_at, fmt::format("a header of at most {} bytes", max_header_bytes), fmt::format("{}", length));
  }
  const uint64_t text_at = in.offset();
  LiteralReader(file, text_at, in.take(length, "the header")).run(header);
  header.offset = in.offset();
  return header;
}

uint64_t expect_npy_bytes(const FileBytes& file, uint64_t at, uint64_t end, const npy::Header& header, DType dtype) {
  const uint64_t bytes = bytes_of(file, at, header.shape, dtype), there = end - header.offset;
  if (bytes == there) return bytes;
  file.fail(header.offset, fmt::format("{} bytes for shape {} of {}", bytes, header.shape.str(), name_of(dtype)),
            fmt::format("{}", there));
}

NDArray read_npy(const FileBytes& file, uint64_t at, uint64_t end) {
  const npy::Header header = read_npy_header(file, at, end);
  const auto type = npy_dtype(header.dtype);
  if (!type) {
    file.fail(at, "an array of numbers that Kaon has", fmt::format("'{}', {}", header.dtype, meaning_of(header.dtype)));
  }
  const Shape& shape = header.shape;
  const uint64_t bytes = expect_npy_bytes(file, at, end, header, type->dtype);
  const bool is_transposed = header.fortran_order && shape.ndim() > 1;
  if (!is_transposed && !type->is_swapped) return file.array(header.offset, shape, type->dtype, "the array");
  const NDArray array = NDArray::empty(shape, type->dtype, cpu());
  if (bytes == 0) return array;
  char* out = static_cast<char*>(array.node().data());  // nobody else knows it yet
  int64_t strides[Shape::max_ndim] = {};
  int64_t stride = 1;
  for (int i = 0; i < shape.ndim(); ++i) {
    const int axis = is_transposed ? i : shape.ndim() - 1 - i;
    strides[axis] = stride;
    stride *= shape[axis];
  }
  const size_t element = size_of(type->dtype);
  gather(file.part(header.offset, bytes, "the array").data(), shape, strides, element, out);
  if (type->is_swapped) swap_bytes(out, size_t(shape.size()), element);
  if (type->dtype == DType::boolean) {
    for (uint64_t i = 0; i < bytes; ++i) out[i] = out[i] != 0;
  }
  return array;
}

}  // namespace kaon::interchange

namespace kaon::npy {

using namespace interchange;

NDArray load(const std::filesystem::path& file) {
  const FileBytes bytes = FileBytes::map(file);
  return read_npy(bytes, 0, bytes.size());
}

NDArray load_from_bytes(std::string_view bytes, const std::string& source) {
  return read_npy(FileBytes::copy_of(bytes, source), 0, bytes.size());
}

Header read_header(const std::filesystem::path& file) {
  const FileBytes bytes = FileBytes::map(file);
  return read_npy_header(bytes, 0, bytes.size());
}

}  // namespace kaon::npy

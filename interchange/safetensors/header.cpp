#include "kaon/interchange/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <utility>

#include "kaon/interchange/file/json_text.h"

namespace kaon::interchange {

namespace json = boost::json;
using safetensors::TensorInfo;

namespace {

constexpr uint64_t max_header_bytes = 100'000'000;  // the format's own limit

constexpr std::pair<std::string_view, DType> safetensors_dtypes[] = {
    {"BOOL", DType::boolean}, {"U8", DType::uint8},    {"I8", DType::int8},       {"I16", DType::int16},
    {"U16", DType::uint16},   {"F16", DType::float16}, {"BF16", DType::bfloat16}, {"I32", DType::int32},
    {"U32", DType::uint32},   {"F32", DType::float32}, {"F64", DType::float64},   {"I64", DType::int64},
    {"U64", DType::uint64}};
// Bits of an element of those that Kaon lacks.
constexpr std::pair<std::string_view, uint64_t> other_dtypes[] = {
    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"C64", 64}};

// Bits of an element; 0 for an unknown dtype.
uint64_t bits_of(std::string_view dtype) {
  if (const auto known = safetensors_dtype(dtype)) return 8 * size_of(*known);
  for (const auto& [name, bits] : other_dtypes) {
    if (name == dtype) return bits;
  }
  return 0;
}

class HeaderReader {
 public:
  HeaderReader(const FileBytes& file, uint64_t data) : file_(file), data_(data) {}

  // The offsets of members are not kept by the JSON reader: errors name the tensor, and the byte where the header is.
  [[noreturn]] void fail(std::string_view tensor, std::string_view expected, std::string_view found) const {
    file_.fail(8, fmt::format("in the header, tensor '{}': {}", tensor, expected), found);
  }

  uint64_t number(const json::value& value, std::string_view tensor, std::string_view what) const {
    if (const auto* i = value.if_int64(); i && *i >= 0) return uint64_t(*i);
    if (const auto* u = value.if_uint64()) return *u;
    fail(tensor, fmt::format("{} as a whole number of 0 or more", what), text(value));
  }

  static std::string text(const json::value& value) {
    if (const auto* i = value.if_int64()) return fmt::format("{}", *i);
    if (const auto* s = value.if_string()) return fmt::format("'{}'", std::string_view(*s).substr(0, 80));
    return fmt::format("{}", std::string_view(json::to_string(value.kind())));
  }

  const json::array& list(const json::object& object, const char* key, std::string_view tensor) const {
    const json::value* v = object.if_contains(key);
    const json::array* a = v ? v->if_array() : nullptr;
    if (!a) fail(tensor, fmt::format("a list \"{}\"", key), v ? text(*v) : "none");
    return *a;
  }

  TensorInfo tensor(std::string_view name, const json::value& value) const {
    TensorInfo t;
    t.name = name;
    const json::object* object = value.if_object();
    if (!object) fail(name, "an object", text(value));
    const json::value* dtype = object->if_contains("dtype");
    if (!dtype || !dtype->if_string()) fail(name, "a text \"dtype\"", dtype ? text(*dtype) : "none");
    t.dtype = std::string_view(*dtype->if_string());
    const uint64_t bits = bits_of(t.dtype);
    if (bits == 0) fail(name, "a dtype of the format", text(*dtype));
    bool overflows = false;
    uint64_t count = bits;  // of an array of zeros too, the other dimensions must be countable
    bool is_empty = false;
    for (const json::value& d : list(*object, "shape", name)) {
      const uint64_t dim = number(d, name, "a dimension");
      if (dim > uint64_t(std::numeric_limits<int64_t>::max()))
        fail(name, "a dimension below 2^63", fmt::format("{}", dim));
      is_empty |= dim == 0;
      overflows |= dim != 0 && __builtin_mul_overflow(count, dim, &count);
      t.shape.push_back(int64_t(dim));
    }
    if (overflows) fail(name, "a shape whose elements can be counted", "a larger one");
    if (is_empty) count = 0;
    const json::array& offsets = list(*object, "data_offsets", name);
    if (offsets.size() != 2) fail(name, "two \"data_offsets\"", fmt::format("{}", offsets.size()));
    const uint64_t begin = number(offsets[0], name, "an offset"), end = number(offsets[1], name, "an offset");
    const uint64_t there = file_.size() - data_;
    if (begin > end || end > there) {
      fail(name, fmt::format("\"data_offsets\" in order and within the {} bytes of data", there),
           fmt::format("[{}, {}]", begin, end));
    }
    if (count % 8 != 0 || end - begin != count / 8) {
      fail(name, fmt::format("{} bytes for its shape and dtype", (count + 7) / 8), fmt::format("{}", end - begin));
    }
    t.offset = data_ + begin;
    t.bytes = end - begin;
    return t;
  }

 private:
  const FileBytes& file_;
  uint64_t data_;
};

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const auto& [text, dtype] : safetensors_dtypes) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
  return std::find_if(std::begin(safetensors_dtypes), std::end(safetensors_dtypes),
                      [&](const auto& d) { return d.second == dtype; })
      ->first;
}

SafetensorsHeader read_safetensors_header(const FileBytes& file) {
  const auto bytes = file.number<uint64_t>(0, "the length of the header");
  if (bytes > max_header_bytes) {
    file.fail(0, fmt::format("a header of at most {} bytes", max_header_bytes), fmt::format("{}", bytes));
  }
  if (const std::string_view first = file.part(8, bytes, "the header"); first.empty() || first[0] != '{') {
    file.fail(8, "a header that begins with '{'",
              first.empty() ? "nothing" : fmt::format("{:#04x}", uint8_t(first[0])));
  }
  const json::value value = parse_json(file, 8, bytes, "the header");
  const HeaderReader reader(file, 8 + bytes);
  SafetensorsHeader header;
  const json::object* root = value.if_object();
  if (!root) file.fail(8, "a header that is an object", HeaderReader::text(value));
  for (const auto& [key, member] : *root) {
    if (key != "__metadata__") {
      header.tensors.push_back(reader.tensor(key, member));
      continue;
    }
    const json::object* metadata = member.if_object();
    if (!metadata) file.fail(8, "an object as \"__metadata__\"", HeaderReader::text(member));
    for (const auto& [name, text] : *metadata) {
      if (!text.if_string()) {
        file.fail(8, fmt::format("a text in \"__metadata__\" as '{}'", std::string_view(name)),
                  HeaderReader::text(text));
      }
      header.metadata.emplace(name, *text.if_string());
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.offset + a.bytes) < std::pair(b.offset, b.offset + b.bytes);
  });
  uint64_t next = 8 + bytes;
  for (const TensorInfo& t : header.tensors) {
    if (t.offset != next) {
      file.fail(t.offset, fmt::format("tensor '{}' to begin where the one before it ends, at byte {}", t.name, next),
                t.offset < next ? "tensors that overlap" : "a hole");
    }
    next += t.bytes;
  }
  if (next != file.size()) {
    file.fail(next, "the end of the file behind the last tensor", fmt::format("{} more bytes", file.size() - next));
  }
  return header;
}

}  // namespace kaon::interchange

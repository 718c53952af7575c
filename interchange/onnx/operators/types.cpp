// Conversions between element types, among them those that Kaon holds as codes.
#include <fmt/format.h>

#include <cstring>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/types.h"

namespace kaon::onnx::convert {

using format::dtype_of;
using format::is_coded;

Value decoded(Call& c, const Value& x) {
  if (!is_coded(x.type)) return x;
  std::vector<float> numbers;
  for (int code = 0; code < 256; ++code) numbers.push_back(format::decode(x.type, uint8_t(code)));
  const Symbol table = Symbol::constant(NDArray::from(numbers.data(), numbers.size(), Shape(256)));
  Value y = Value::of(reshaped(sym.take(table, x.symbol, {.axis = 0}), x.shape()));
  if (x.is_constant()) {  // table and codes are known
    std::vector<uint8_t> codes = x.known.asvector<uint8_t>();
    std::vector<float> values;
    for (uint8_t code : codes) values.push_back(numbers[code]);
    y = Value::constant(NDArray::from(values.data(), values.size(), x.shape()));
  }
  (void)c;
  return y;
}

bool is_small_integer(ElementType type) {
  return type == ElementType::uint4 || type == ElementType::int4 || type == ElementType::uint2 ||
         type == ElementType::int2;
}

Value encoded(Call& c, const Value& x, ElementType type, bool saturate) {
  const Shape shape = x.shape();
  const std::string mode = c.text("round_mode", "up");
  const format::Rounding rounding = mode == "down"      ? format::Rounding::down
                                    : mode == "nearest" ? format::Rounding::nearest
                                                        : format::Rounding::up;
  Value y = c.conversion().host({x}, [type, saturate, shape, rounding](const std::vector<NDArray>& in) {
    std::vector<uint8_t> codes;
    for (float v : in[0].asvector<float>()) codes.push_back(format::encode(type, v, saturate, rounding));
    return std::vector{NDArray::from(codes.data(), codes.size(), shape, DType::uint8)};
  })[0];
  y.type = type;
  return y;
}

Value converted(Call& c, const Value& x, ElementType type, bool saturate) {
  if (x.kind == Value::Kind::strings || type == ElementType::string) {
    if (x.kind == Value::Kind::strings && dtype_of(type)) {
      std::vector<double> numbers;
      for (const std::string& s : x.strings) numbers.push_back(std::strtod(s.c_str(), nullptr));
      return Value::constant(NDArray::from(numbers.data(), numbers.size(), x.strings_shape, *dtype_of(type)), type);
    }
    c.fail_supported("a conversion of strings");
  }
  if (x.type == type) return x;
  const auto dtype = dtype_of(type);
  if (!dtype) c.fail_supported(fmt::format("a conversion to {}", format::name_of(type)));
  const Value numbers = decoded(c, x);
  if (!is_coded(type)) return Value::of(cast(numbers.symbol, *dtype), type);
  return encoded(c, numbers, type, saturate && !is_small_integer(type));  // integers wrap
}

namespace {

void cast_node(Call& c) {
  ElementType type = ElementType(c.integer("to", 0));
  if (c.opset() < 6) {
    const std::string name = c.text("to", "");
    for (int t = 1; t <= 16; ++t) {
      if (format::name_of(ElementType(t)) == name) type = ElementType(t);
    }
  }
  c.set(converted(c, c.input(0), type, c.integer("saturate", 1) != 0));
}

void cast_like(Call& c) { c.set(converted(c, c.input(0), c.type(1), c.integer("saturate", 1) != 0)); }

// The same bits as elements of another type of the same size.
void bit_cast(Call& c) {
  const ElementType type = ElementType(c.integer("to", 0));
  const auto dtype = dtype_of(type);
  if (!dtype || c.input(0).kind != Value::Kind::tensor) c.fail_supported("the element type");
  if (format::bits_of(type) != format::bits_of(c.type())) {
    c.fail(fmt::format("{} and {} differ in size", format::name_of(c.type()), format::name_of(type)));
  }
  if (*dtype == c.dtype()) return c.set(Value::of(c.x(), type));
  const Shape shape = c.shape();
  Value y = c.conversion().host({c.input(0)}, [shape, to = *dtype](const std::vector<NDArray>& in) {
    const NDArray from = in[0].copy();
    from.wait_to_read();
    // the copy's own memory under another dtype
    const auto bytes = [&]() -> void* {
      switch (from.dtype()) {
        case DType::float32: return from.data<float>().data();
        case DType::float64: return from.data<double>().data();
        case DType::float16: return from.data<float16>().data();
        case DType::bfloat16: return from.data<bfloat16>().data();
        case DType::uint8: return from.data<uint8_t>().data();
        case DType::int8: return from.data<int8_t>().data();
        case DType::int16: return from.data<int16_t>().data();
        case DType::uint16: return from.data<uint16_t>().data();
        case DType::int32: return from.data<int32_t>().data();
        case DType::uint32: return from.data<uint32_t>().data();
        case DType::int64: return from.data<int64_t>().data();
        case DType::uint64: return from.data<uint64_t>().data();
        case DType::boolean: return from.data<bool>().data();
      }
      return nullptr;
    }();
    return std::vector{NDArray::from_blob(bytes, shape, to, [from] {})};
  })[0];
  y.type = type;
  c.set(y);
}

constexpr Row type_table[] = {
    {"Cast", cast_node},
    {"CastLike", cast_like},
    {"BitCast", bit_cast},
};

}  // namespace

std::span<const Row> type_rows() { return type_table; }

}  // namespace kaon::onnx::convert

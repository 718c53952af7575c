#include "kaon/interchange/onnx/format/element_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace kaon::onnx::format {

namespace {

using E = ElementType;

struct Info {
  std::string_view name;
  int bits = 0;
  std::optional<DType> dtype{};
};

constexpr Info info_of(E type) {
  switch (type) {
    case E::float32: return {"FLOAT", 32, DType::float32};
    case E::uint8: return {"UINT8", 8, DType::uint8};
    case E::int8: return {"INT8", 8, DType::int8};
    case E::uint16: return {"UINT16", 16, DType::uint16};
    case E::int16: return {"INT16", 16, DType::int16};
    case E::int32: return {"INT32", 32, DType::int32};
    case E::int64: return {"INT64", 64, DType::int64};
    case E::string: return {"STRING"};
    case E::boolean: return {"BOOL", 8, DType::boolean};
    case E::float16: return {"FLOAT16", 16, DType::float16};
    case E::float64: return {"DOUBLE", 64, DType::float64};
    case E::uint32: return {"UINT32", 32, DType::uint32};
    case E::uint64: return {"UINT64", 64, DType::uint64};
    case E::complex64: return {"COMPLEX64", 64};
    case E::complex128: return {"COMPLEX128", 128};
    case E::bfloat16: return {"BFLOAT16", 16, DType::bfloat16};
    case E::float8e4m3fn: return {"FLOAT8E4M3FN", 8, DType::uint8};
    case E::float8e4m3fnuz: return {"FLOAT8E4M3FNUZ", 8, DType::uint8};
    case E::float8e5m2: return {"FLOAT8E5M2", 8, DType::uint8};
    case E::float8e5m2fnuz: return {"FLOAT8E5M2FNUZ", 8, DType::uint8};
    case E::uint4: return {"UINT4", 4, DType::uint8};
    case E::int4: return {"INT4", 4, DType::uint8};
    case E::float4e2m1: return {"FLOAT4E2M1", 4, DType::uint8};
    case E::float8e8m0: return {"FLOAT8E8M0", 8, DType::uint8};
    case E::uint2: return {"UINT2", 2, DType::uint8};
    case E::int2: return {"INT2", 2, DType::uint8};
    case E::float6e2m3: return {"FLOAT6E2M3", 6, DType::uint8};
    case E::float6e3m2: return {"FLOAT6E3M2", 6, DType::uint8};
    case E::undefined: break;
  }
  return {"UNKNOWN"};
}

// A small float: sign, exponent and mantissa bits. fnuz: no negative zero, whose code is the only NaN.
enum class Specials { ieee, one_nan, none, fnuz };
struct SmallFloat {
  int exponent = 0, mantissa = 0, bias = 0;
  Specials specials = Specials::none;
};

constexpr std::optional<SmallFloat> small_float(E type) {
  switch (type) {
    case E::float8e4m3fn: return SmallFloat{4, 3, 7, Specials::one_nan};
    case E::float8e4m3fnuz: return SmallFloat{4, 3, 8, Specials::fnuz};
    case E::float8e5m2: return SmallFloat{5, 2, 15, Specials::ieee};
    case E::float8e5m2fnuz: return SmallFloat{5, 2, 16, Specials::fnuz};
    case E::float4e2m1: return SmallFloat{2, 1, 1, Specials::none};
    case E::float6e2m3: return SmallFloat{2, 3, 1, Specials::none};
    case E::float6e3m2: return SmallFloat{3, 2, 3, Specials::none};
    default: return std::nullopt;
  }
}

float decode_float(const SmallFloat& f, uint32_t code) {
  const uint32_t sign_bit = 1u << (f.exponent + f.mantissa);
  const uint32_t magnitude = code & (sign_bit - 1);
  const bool negative = (code & sign_bit) != 0;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.specials == Specials::fnuz && code == sign_bit) return nan;
  if (f.specials == Specials::one_nan && magnitude == sign_bit - 1) return nan;
  const int exponent = int(magnitude >> f.mantissa);
  const uint32_t fraction = magnitude & ((1u << f.mantissa) - 1);
  float value = 0;
  if (f.specials == Specials::ieee && exponent == (1 << f.exponent) - 1) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity() : nan;
  } else if (exponent == 0) {
    value = std::ldexp(float(fraction), 1 - f.bias - f.mantissa);
  } else {
    value = std::ldexp(float(fraction + (1u << f.mantissa)), exponent - f.bias - f.mantissa);
  }
  return negative ? -value : value;
}

// The largest finite magnitude's code.
uint32_t largest(const SmallFloat& f) {
  const uint32_t all = (1u << (f.exponent + f.mantissa)) - 1;
  if (f.specials == Specials::one_nan) return all - 1;
  if (f.specials == Specials::ieee) return all - (1u << f.mantissa);
  return all;
}

uint8_t encode_float(const SmallFloat& f, float value, bool saturate) {
  const uint32_t sign_bit = 1u << (f.exponent + f.mantissa);
  const uint32_t top = largest(f);
  const uint32_t sign = std::signbit(value) ? sign_bit : 0;
  if (std::isnan(value)) {
    if (f.specials == Specials::fnuz) return uint8_t(sign_bit);
    if (f.specials == Specials::none)
      return uint8_t(sign_bit);  // there is no NaN: minus 0, as the standard's test has it
    if (f.specials == Specials::one_nan) return uint8_t(sign | (sign_bit - 1));
    return uint8_t(sign | (top + 1) | (1u << (f.mantissa - 1)));  // quiet
  }
  const double magnitude = std::fabs(double(value));
  // Codes of finite magnitudes ascend: the last one that is not larger.
  uint32_t low = 0, high = top;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (double(decode_float(f, middle)) <= magnitude) low = middle;
    else high = middle - 1;
  }
  uint32_t code = low;
  bool overflows = std::isinf(value);
  if (!overflows) {
    const double below = decode_float(f, low);
    const double step = low == top ? below - decode_float(f, top - 1) : decode_float(f, low + 1) - below;
    const double rest = magnitude - below;
    if (rest > step / 2 || (rest == step / 2 && (low & 1) != 0)) {
      if (low == top) overflows = true;
      else ++code;
    }
  }
  if (overflows) {
    code = top;
    if (!saturate) {
      if (f.specials == Specials::ieee) code = top + 1;  // infinity
      if (f.specials == Specials::one_nan) code = sign_bit - 1;
      if (f.specials == Specials::fnuz) return uint8_t(sign_bit);
    } else if (std::isinf(value) && f.specials == Specials::none) {
      code = top;
    }
  }
  if (f.specials == Specials::fnuz && code == 0) return 0;
  return uint8_t(sign | code);
}

}  // namespace

std::string_view name_of(ElementType type) { return info_of(type).name; }
std::optional<DType> dtype_of(ElementType type) { return info_of(type).dtype; }
int bits_of(ElementType type) { return info_of(type).bits; }
bool is_coded(ElementType type) { return type >= E::float8e4m3fn && type <= E::float6e3m2; }

ElementType element_type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return E::float32;
    case DType::float64: return E::float64;
    case DType::float16: return E::float16;
    case DType::bfloat16: return E::bfloat16;
    case DType::uint8: return E::uint8;
    case DType::int8: return E::int8;
    case DType::int16: return E::int16;
    case DType::uint16: return E::uint16;
    case DType::int32: return E::int32;
    case DType::uint32: return E::uint32;
    case DType::int64: return E::int64;
    case DType::uint64: return E::uint64;
    case DType::boolean: return E::boolean;
  }
  return E::undefined;
}

float decode(ElementType type, uint8_t code) {
  switch (type) {
    case E::uint4: return float(code & 15);
    case E::int4: return float((code & 15) ^ 8) - 8;
    case E::uint2: return float(code & 3);
    case E::int2: return float((code & 3) ^ 2) - 2;
    case E::float8e8m0:
      return code == 255 ? std::numeric_limits<float>::quiet_NaN() : float(std::ldexp(1.0, int(code) - 127));
    default: break;
  }
  const auto f = small_float(type);
  return f ? decode_float(*f, code) : float(code);
}

namespace {

// The power of two of a magnitude: the next one upwards or downwards, or the nearest, halves upwards.
uint8_t encode_exponent(float value, bool saturate, Rounding rounding) {
  if (std::isnan(value)) return 255;
  const uint32_t raw = std::bit_cast<uint32_t>(std::fabs(value));
  if (raw >= 0x7f800000) return saturate ? 254 : 255;
  uint32_t exponent = raw >> 23;
  const uint32_t fraction = raw & 0x7fffff;
  const bool rises = rounding == Rounding::up ? fraction > 0 && (exponent > 0 || fraction > 0x400000)
                                              : rounding == Rounding::nearest && fraction >= 0x400000;
  if (rises) ++exponent;
  return uint8_t(std::min<uint32_t>(exponent, saturate ? 254 : 255));
}

}  // namespace

uint8_t encode(ElementType type, float value, bool saturate, Rounding rounding) {
  const int bits = bits_of(type);
  if (type == E::uint4 || type == E::int4 || type == E::uint2 || type == E::int2) {
    if (std::isnan(value)) return 0;
    const bool is_signed = type == E::int4 || type == E::int2;
    const float low = is_signed ? -float(1 << (bits - 1)) : 0, high = low + float((1 << bits) - 1);
    if (saturate) value = std::clamp(std::nearbyint(value), low, high);
    return uint8_t(int64_t(value) & ((1 << bits) - 1));
  }
  if (type == E::float8e8m0) return encode_exponent(value, saturate, rounding);
  const auto f = small_float(type);
  return f ? encode_float(*f, value, saturate) : uint8_t(value);
}

}  // namespace kaon::onnx::format

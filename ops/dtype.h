// Element types, with MXNet's numbers and names.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/half.h"

namespace KAON_API kaon {

// The numbers are those of MXNet's files.
enum class DType : int8_t {
  float32 = 0,
  float64 = 1,
  float16 = 2,
  uint8 = 3,
  int32 = 4,
  int8 = 5,
  int64 = 6,
  boolean = 7,
  int16 = 8,
  uint16 = 9,
  uint32 = 10,
  uint64 = 11,
  bfloat16 = 12
};

// 16-bit storage types: arithmetic happens in float.
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  KAON_HOST_DEVICE explicit bfloat16(float value) {
    uint32_t u;
    memcpy(&u, &value, 4);
    // round to nearest even; NaN keeps a set mantissa bit
    bits = (u & 0x7fffffff) > 0x7f800000 ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  KAON_HOST_DEVICE operator float() const {
    uint32_t u = uint32_t(bits) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
};

struct float16 {
  uint16_t bits;
  float16() = default;
  KAON_HOST_DEVICE explicit float16(float value) : bits(ops::half_bits(value)) {}  // round to nearest even
  KAON_HOST_DEVICE operator float() const { return ops::half_value(bits); }
};

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::float64:
    case DType::int64:
    case DType::uint64: return 8;
    case DType::float32:
    case DType::int32:
    case DType::uint32: return 4;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
    case DType::uint16: return 2;
    case DType::uint8:
    case DType::int8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType t) {
  return t == DType::float32 || t == DType::float64 || t == DType::float16 || t == DType::bfloat16;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::uint8: return "uint8";
    case DType::int8: return "int8";
    case DType::int16: return "int16";
    case DType::uint16: return "uint16";
    case DType::int32: return "int32";
    case DType::uint32: return "uint32";
    case DType::int64: return "int64";
    case DType::uint64: return "uint64";
    case DType::boolean: return "bool";
  }
  return "unknown";
}

namespace ops {
inline constexpr DType all_dtypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                                       DType::int8,    DType::uint16,  DType::int16,   DType::uint32,   DType::int32,
                                       DType::uint64,  DType::int64,   DType::boolean};

constexpr bool is_valid(DType t) { return size_of(t) != 0; }

constexpr bool is_half(DType t) { return t == DType::float16 || t == DType::bfloat16; }

constexpr bool is_unsigned(DType t) {  // bool is neither signed nor unsigned
  return t == DType::uint8 || t == DType::uint16 || t == DType::uint32 || t == DType::uint64;
}

// The signed integers of the same width for unsigned ones; other dtypes themselves.
constexpr DType as_signed(DType t) {
  switch (t) {
    case DType::uint8: return DType::int8;
    case DType::uint16: return DType::int16;
    case DType::uint32: return DType::int32;
    case DType::uint64: return DType::int64;
    default: return t;
  }
}
}  // namespace ops

template <class T>
inline constexpr DType dtype_of = DType(-1);
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<float16> = DType::float16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<int8_t> = DType::int8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::uint16;
template <>
inline constexpr DType dtype_of<int16_t> = DType::int16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::uint32;
template <>
inline constexpr DType dtype_of<int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::uint64;
template <>
inline constexpr DType dtype_of<int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace kaon

// Conversion of one number from any dtype to another, the same on every machine; Cast, reads on the host and filling
// share it, on CPU and GPU. A light header.
#pragma once

#include <type_traits>

#include "kaon/ops/dtype.h"
#include "kaon/ops/math/scalar_math.h"

namespace kaon::ops {

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// v for rounding to fewer bits: where double does not hold an integer, the odd one of its two neighbours.
template <class T>
KAON_HOST_DEVICE double near_double(T v) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    constexpr uint64_t rest = 2047;  // bits that the largest doubles do not have
    const uint64_t bits = uint64_t(v), size = v < T(0) ? 0 - bits : bits;
    if (size >> 53 != 0 && (bits & rest) != 0) return double(T((bits & ~rest) | (rest + 1)));
  }
  return double(v);
}

// The float that rounds to the 16-bit number nearest to v. If v is no float, that is the odd one of its two neighbours:
// the nearest one might be a tie between 16-bit numbers, which v is not.
template <class T>
KAON_HOST_DEVICE float before_half(T v) {
  if constexpr (sizeof(T) < 4 || std::is_same_v<T, float>) {
    return float(v);
  } else {
    const double exact = near_double(v);
    const float near = float(exact);
    const uint32_t bits = bits_of(near);
    if (double(near) == exact || exact != exact || (bits & 1) != 0) return near;
    return float_of(::fabs(double(near)) < ::fabs(exact) ? bits + 1 : bits - 1);
  }
}

// Reals become integers by truncation toward zero (NaN gives 0, values out of range wrap as those of int64 do, beyond
// int64 and uint64 they are its ends), integers wrap, numbers become bool by != 0, and reals round to nearest even.
template <class To, class From>
KAON_HOST_DEVICE To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (is_half_type<From>) {
    return convert<To>(float(v));
  } else if constexpr (is_half_type<To>) {
    return To(before_half(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v >= From(-2147483648.0) && v < From(2147483648.0)) return To(int32_t(v));
    return from_number<To>(double(v));
  } else {
    return To(v);
  }
}

}  // namespace kaon::ops

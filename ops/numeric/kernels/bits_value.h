// Bits and common multiples of integers, for both devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kaon/ops/host_device.h"
#include "kaon/ops/numeric/numeric.h"

namespace kaon::ops {

template <BitsKind K, class T>
KAON_HOST_DEVICE inline T bits_value(T a, T b) {
  constexpr int64_t width = 8 * int64_t(sizeof(T));
  if constexpr (K == BitsKind::bit_and) {
    return T(a & b);
  } else if constexpr (K == BitsKind::bit_or) {
    return T(a | b);
  } else if constexpr (K == BitsKind::bit_xor) {
    return T(a ^ b);
  } else if constexpr (K == BitsKind::lcm) {
    using U = std::make_unsigned_t<T>;
    const U x = a < 0 ? U(U(0) - U(a)) : U(a), y = b < 0 ? U(U(0) - U(b)) : U(b);
    U divisor = x;
    for (U rest = y; rest != 0;) {
      const U next = U(divisor % rest);
      divisor = rest, rest = next;
    }
    return divisor == 0 ? T(0) : T(uint64_t(x / divisor) * y);
  } else {
    const bool out = int64_t(b) < 0 || int64_t(b) >= width;
    const int by = out ? 0 : int(b);
    if constexpr (K == BitsKind::left_shift) {
      return out ? T(0) : T(uint64_t(a) << by);
    } else {
      return out ? T(a < 0 ? -1 : 0) : T(a >> by);
    }
  }
}

// The elements of a kind of numbers: those whose bits, with `mask`, are in [low, high]. T: unsigned, of a real's width.
template <class T>
struct BitRange {
  T mask, low, high;
  KAON_HOST_DEVICE bool operator()(T bits) const { return T(T(bits & mask) - low) <= T(high - low); }
};

// `infinity`: the bits of that real.
template <class T>
BitRange<T> bit_range(NumberKind kind, T infinity) {
  constexpr T all = T(~T(0)), magnitude = T(all >> 1);
  switch (kind) {
    case NumberKind::nan: return {magnitude, T(infinity + 1), magnitude};
    case NumberKind::infinite: return {magnitude, infinity, infinity};
    case NumberKind::finite: return {magnitude, T(0), T(infinity - 1)};
    case NumberKind::positive_infinite: return {all, infinity, infinity};
    default: return {all, T(infinity | T(~magnitude)), T(infinity | T(~magnitude))};
  }
}

// The bits of infinity in a floating dtype.
inline uint64_t infinity_bits(DType dtype) {
  switch (dtype) {
    case DType::float64: return 0x7ff0000000000000u;
    case DType::float32: return 0x7f800000u;
    case DType::bfloat16: return 0x7f80u;
    default: return 0x7c00u;
  }
}

}  // namespace kaon::ops

// Functions of two reals, and replacements of NaN and infinities, for both devices.
#pragma once

#include <math.h>

#include <limits>
#include <type_traits>

#include "kaon/ops/host_device.h"
#include "kaon/ops/numeric/numeric.h"

namespace kaon::ops {

// T: float, double; integers where the function takes them.
template <RealKind K, class T>
KAON_HOST_DEVICE inline T real_value(T a, T b) {
  if constexpr (K == RealKind::arctan2) {
    return T(::atan2(a, b));
  } else if constexpr (K == RealKind::copysign) {
    return T(::copysign(a, b));
  } else if constexpr (K == RealKind::fmod && std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;  // the least number by it overflows
    }
    return b == 0 ? T(0) : T(a % b);
  } else if constexpr (K == RealKind::fmod) {
    return T(::fmod(a, b));
  } else if constexpr (K == RealKind::fmax) {
    return b != b || a >= b ? a : b;
  } else if constexpr (K == RealKind::fmin) {
    return b != b || a <= b ? a : b;
  } else {
    return T(double(a) * ::exp2(double(b)));
  }
}

template <class T>
struct NanReplacement {
  T nan, infinity, minus_infinity;
  KAON_HOST_DEVICE T operator()(T x) const {
    constexpr T inf = std::numeric_limits<T>::infinity();
    return x != x ? nan : x == inf ? infinity : x == -inf ? minus_infinity : x;
  }
};

// In T, for arrays of a dtype.
template <class T>
NanReplacement<T> nan_replacement(const op::NanToNum& op, DType dtype) {
  const double largest = dtype == DType::float64    ? std::numeric_limits<double>::max()
                         : dtype == DType::float32  ? std::numeric_limits<float>::max()
                         : dtype == DType::bfloat16 ? 0x1.fep127
                                                    : 65504;
  return {T(op.nan), T(op.posinf.value_or(largest)), T(op.neginf.value_or(-largest))};
}

}  // namespace kaon::ops

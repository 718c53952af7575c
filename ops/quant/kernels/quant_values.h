// Levels and their ranges, one number at a time: what kernels on both devices share. A light header.
#pragma once

#include <cmath>
#include <limits>

#include "kaon/ops/dtype.h"
#include "kaon/ops/host_device.h"

namespace kaon::ops {

// The larger absolute value of a range; NaN if one of them is.
KAON_HOST_DEVICE inline float magnitude(float min, float max) {
  const float a = fabsf(min), b = fabsf(max);
  return a < b || b != b ? b : a;
}

// How many levels the larger absolute value of a range is.
KAON_HOST_DEVICE inline float level_count(DType t) {
  return t == DType::int8 ? 127.5f : t == DType::uint8 ? 255.5f : 2147483647.f;
}
// The same of operators that count whole levels.
KAON_HOST_DEVICE inline float whole_level_count(DType t) {
  return t == DType::int8 ? 127.f : t == DType::uint8 ? 255.f : 2147483647.f;
}

// Calls f.operator()<T>() for the dtype of levels of 8 bits.
template <class F>
void by_level(DType t, const F& f) {
  t == DType::int8 ? f.template operator()<int8_t>() : f.template operator()<uint8_t>();
}

// Levels per unit. A range of 0 has the number 0 alone.
KAON_HOST_DEVICE inline float levels_per_unit(float levels, float range) { return range == 0 ? 0.f : levels / range; }

// The level nearest to x, of equally near ones the even; NaN gives 0.
template <class T>
KAON_HOST_DEVICE T nearest_level(float x) {
  constexpr float least = float(std::numeric_limits<T>::min()), most = float(std::numeric_limits<T>::max());
  if (x != x) return T(0);
  if (x <= least) return std::numeric_limits<T>::min();
  if (x >= most) return std::numeric_limits<T>::max();
  return T(rintf(x));
}

// a b, rounded for itself: a GPU's compiler would add it to the next term unrounded.
KAON_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// floor(scale x + shift + 1/2) within uint8; NaN gives 0.
KAON_HOST_DEVICE inline uint8_t asymmetric_level(float x, float scale, float shift) {
  const float y = rounded_product(x, scale) + shift + 0.5f;
  return y >= 255.f ? uint8_t(255) : y > 0.f ? uint8_t(y) : uint8_t(0);
}

// A sum of two arrays: how the levels of each become levels of the result, of range `out`. Without a calibrated range
// that is the sum of both ranges.
struct SumScales {
  float lhs, rhs;
  KAON_HOST_DEVICE static SumScales of(DType lhs_dtype, DType rhs_dtype, DType out_dtype, float lhs_range,
                                       float rhs_range, const float* out_range) {
    const float all = level_count(out_dtype);
    if (out_range) {
      const float out = levels_per_unit(all, *out_range);
      return {out / (level_count(lhs_dtype) / lhs_range), out / (level_count(rhs_dtype) / rhs_range)};
    }
    const float sum = lhs_range + rhs_range;
    if (sum == 0) return {0, 0};
    return {lhs_range * all / (sum * level_count(lhs_dtype)), rhs_range * all / (sum * level_count(rhs_dtype))};
  }
};

// A product of two arrays of int8: what the products of their levels become in a result of this dtype.
struct MulScale {
  float factor = 1, min = 0, max = 0;  // and the range of the result

  KAON_HOST_DEVICE static MulScale of(DType out, float lhs_range, float rhs_range, float calib_min, float calib_max) {
    if (out == DType::int32) {
      const float level = lhs_range / 127.f * (rhs_range / 127.f);
      return {1, level * -2147483648.f, level * 2147483647.f};
    }
    if (lhs_range == 0 || rhs_range == 0) return {0, calib_min, calib_max};
    const float lhs = 127.5f / lhs_range, rhs = 127.5f / rhs_range;
    if (out == DType::float32) return {float(1.0 / double(lhs) / double(rhs)), 0, 0};
    return {levels_per_unit(127.5f, magnitude(calib_min, calib_max)) / lhs / rhs, calib_min, calib_max};
  }
  // Rounded towards 0, within int8.
  KAON_HOST_DEVICE int8_t level(int product) const {
    const float y = float(product) * factor;
    return y != y ? int8_t(0) : y >= 127.f ? int8_t(127) : y <= -128.f ? int8_t(-128) : int8_t(y);
  }
};

}  // namespace kaon::ops

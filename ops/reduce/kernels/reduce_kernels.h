// Reductions of contiguous memory for one dtype and one way to combine. reduce_driver.h puts shapes around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kaon/ops/dtype.h"
#include "kaon/ops/host_device.h"

namespace kaon::ops {

enum class Combine : uint8_t { sum, prod, max, min, nan_sum, nan_prod, sum_abs, sum_squares };

// float32 and 16-bit floats accumulate in float; float64, and the squares of norms, in double; integers in int64,
// uint64 in itself (sums and products wrap).
enum class AccType : uint8_t { f32, f64, i64, u64 };

struct RunKernels {
  AccType acc;
  // acc[i] = the reduction of n elements from data + i * stride, for i < count. n >= 1.
  void (*runs)(const void* data, size_t n, size_t count, size_t stride, void* acc);
  // acc[j] = acc[j] combined with the reduction over r < rows of data[r * stride + j], for j < width.
  void (*rows)(const void* data, size_t width, size_t rows, size_t stride, void* acc);
};

// nan_*, sum_abs and sum_squares exist for floating dtypes only; for integers nan_sum is sum, nan_prod is prod.
RunKernels run_kernels(DType dtype, Combine combine);

template <class Acc>
KAON_HOST_DEVICE constexpr Acc identity_of(Combine c) {
  using limits = std::numeric_limits<Acc>;
  switch (c) {
    case Combine::prod:
    case Combine::nan_prod: return Acc(1);
    case Combine::max: return limits::has_infinity ? -limits::infinity() : limits::min();
    case Combine::min: return limits::has_infinity ? limits::infinity() : limits::max();
    default: return Acc(0);
  }
}

// Two partial results into one. NaN wins in max and min.
template <class Acc>
KAON_HOST_DEVICE inline Acc merge(Combine c, Acc a, Acc b) {
  switch (c) {
    case Combine::prod:
    case Combine::nan_prod:
      if constexpr (std::numeric_limits<Acc>::is_integer) return Acc(uint64_t(a) * uint64_t(b));
      return a * b;
    case Combine::max: return a >= b || a != a ? a : b;
    case Combine::min: return a <= b || a != a ? a : b;
    default:
      if constexpr (std::numeric_limits<Acc>::is_integer) return Acc(uint64_t(a) + uint64_t(b));
      return a + b;
  }
}

// Whether max, or min, prefers `a` to `b`, which precedes it. NaN is preferred to all numbers.
template <Combine C, class V>
KAON_HOST_DEVICE inline bool beats(V a, V b) {
  return bool(int(C == Combine::max ? a > b : a < b) | (int(a != a) & int(b == b)));
}

}  // namespace kaon::ops

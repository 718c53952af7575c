// Differences of neighbours, for both devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

template <class T>
KAON_HOST_DEVICE inline T difference(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return T(uint64_t(a) - uint64_t(b));
  } else {
    return T(accumulate_t<T>(a) - accumulate_t<T>(b));
  }
}

// Rows of `length` results; element i of row r is x[i + inner] - x[i], both from r inner on.
struct DifferenceRows {
  int64_t length, inner;
  DifferenceRows(const Shape& x, int axis)
      : length((x[axis] - 1) * x.product(axis + 1, x.ndim())), inner(x.product(axis + 1, x.ndim())) {}
};

}  // namespace kaon::ops

// Running products and extrema, for both devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kaon/engine/error.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/host_device.h"

namespace kaon::ops {

// Products of integers wrap.
struct Times {
  template <class T>
  KAON_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return T(uint64_t(a) * uint64_t(b));
    } else {
      return a * b;
    }
  }
};

// Whether x takes the place of the largest, or smallest, of the elements before it.
template <class T>
KAON_HOST_DEVICE inline bool replaces(T x, T best, bool largest) {
  return x != x || (best == best && (largest ? x >= best : x <= best));
}

// Calls f.template operator()<T>() for the dtypes of running products and extrema.
template <class F>
void dispatch_running(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    default: return f.template operator()<int64_t>();
  }
}

}  // namespace kaon::ops

// What becomes of an element that is written to, for both devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/search/search.h"

namespace kaon::ops {

// Integers wrap; a NaN passes max and min.
template <Scatter S, class T>
KAON_HOST_DEVICE inline T combined(T old, T value) {
  if constexpr (S == Scatter::none) {
    return value;
  } else if constexpr (S == Scatter::max) {
    return value > old || value != value ? value : old;
  } else if constexpr (S == Scatter::min) {
    return value < old || value != value ? value : old;
  } else if constexpr (std::is_integral_v<T>) {
    return S == Scatter::add ? T(uint64_t(old) + uint64_t(value)) : T(uint64_t(old) * uint64_t(value));
  } else {
    return S == Scatter::add ? old + value : old * value;
  }
}

// Calls f.template operator()<S, T>() for all kinds but none.
template <class F>
void dispatch_combine(const char* op, Scatter kind, DType dtype, F&& f) {
  const auto wrapping = [&]<Scatter S>() {
    dispatch_signed(op, dtype, [&]<class T>() { f.template operator()<S, T>(); });
  };
  const auto ordered = [&]<Scatter S>() {
    dispatch_number(op, dtype, [&]<class T>() { f.template operator()<S, T>(); });
  };
  switch (kind) {
    case Scatter::none: return;
    case Scatter::add: return wrapping.template operator()<Scatter::add>();
    case Scatter::mul: return wrapping.template operator()<Scatter::mul>();
    case Scatter::max: return ordered.template operator()<Scatter::max>();
    case Scatter::min: return ordered.template operator()<Scatter::min>();
  }
}

// Arrays (outer, n, inner) and, of indices, (outer, m, inner).
struct AlongAxis {
  int64_t outer = 1, n = 1, m = 1, inner = 1;
  AlongAxis(const Shape& data, const Shape& indices, int axis)
      : outer(data.product(0, axis)), n(data[axis]), m(indices[axis]), inner(data.product(axis + 1, data.ndim())) {}
};

}  // namespace kaon::ops

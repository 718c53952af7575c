// Where a number belongs in a row in order, for both devices.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// How many of the first elements of the row pass the test; no later one does.
template <class T, class F>
KAON_HOST_DEVICE inline int64_t count_first(const T* row, int64_t n, const F& passes) {
  const T* base = row;
  for (int64_t length = n; length > 1;) {
    const int64_t half = length / 2;
    base += passes(base[half - 1]) ? half : 0;
    length -= half;
  }
  return base - row + (n > 0 && passes(*base) ? 1 : 0);
}

// The number of elements of the row that come before v; `right`: that do not come after it. NaN is larger than all
// others. A: the type to compare in.
template <class A, class T>
KAON_HOST_DEVICE inline int64_t sorted_place(const T* row, int64_t n, A v, bool right) {
  if (v != v) return right ? n : count_first(row, n, [](T x) { return A(x) == A(x); });
  if (right) return count_first(row, n, [v](T x) { return A(x) <= v; });
  return count_first(row, n, [v](T x) { return A(x) < v; });
}

}  // namespace kaon::ops

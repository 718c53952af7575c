// The bin that a number belongs to, for both devices.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// The largest i below `bins` with edge(i) <= x, where edge(0) <= x <= edge(bins), beginning at `guess`; a binary search
// without one (-1). Edges ascend. -1 for other x, NaN too.
template <class Edge>
KAON_HOST_DEVICE inline int64_t bin_of(double x, int64_t bins, int64_t guess, const Edge& edge) {
  if (!(x >= edge(0) && x <= edge(bins))) return -1;
  if (guess >= 0) {
    int64_t i = guess < bins ? guess : bins - 1;
    while (i > 0 && x < edge(i)) --i;
    while (i + 1 < bins && x >= edge(i + 1)) ++i;
    return i;
  }
  int64_t low = 0, high = bins;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (edge(middle) <= x) low = middle;
    else high = middle;
  }
  return low;
}

// `bins` bins of equal width.
struct EvenBins {
  double low, high;
  int64_t bins;
  KAON_HOST_DEVICE double edge(int64_t i) const {
    return i == bins ? high : low + double(i) * ((high - low) / double(bins));
  }
  KAON_HOST_DEVICE int64_t guess(double x) const { return int64_t((x - low) * (double(bins) / (high - low))); }
};

}  // namespace kaon::ops

// The bins of a histogram's attributes.
#pragma once

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/statistics/kernels/bins.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon::ops {

inline EvenBins even_bins(const op::Histogram& op) {
  const Interval r = *op.range;
  const double widened = r.low == r.high ? 0.5 : 0;
  return {r.low - widened, r.high + widened, *op.bin_cnt};
}

// Edge i as reals of this dtype have it, so that counts and edges that are returned agree; exact for integers.
inline double edge_in(const EvenBins& bins, int64_t i, DType dtype) {
  if (!is_floating(dtype)) return bins.edge(i);
  return dispatch_float("_histogram", dtype,
                        [&]<class T>() { return double(accumulate_t<T>(T(accumulate_t<T>(bins.edge(i))))); });
}

}  // namespace kaon::ops

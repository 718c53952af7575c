// The values of arange and linspace, for CPU and CUDA kernels. A light header.
#pragma once

#include <algorithm>
#include <utility>

#include "kaon/ops/init/init.h"

namespace kaon::ops {

// start and stop with the defaults filled in.
inline std::pair<double, double> range(const op::Arange& op) {
  return op.stop ? std::pair(op.start, *op.stop) : std::pair(0.0, op.start);
}

// start + i step, rounded twice: a GPU's compiler would fuse them.
KAON_HOST_DEVICE inline double sequence_value(double start, int64_t i, double step) {
#ifdef __CUDA_ARCH__
  return start + __dmul_rn(double(i), step);
#else
  return start + double(i) * step;
#endif
}

struct ArangeValues {
  double start, step;
  int64_t repeat;

  explicit ArangeValues(const op::Arange& op) : start(range(op).first), step(op.step), repeat(op.repeat) {}
  KAON_HOST_DEVICE double operator()(int64_t i) const { return sequence_value(start, i / repeat, step); }
};

struct LinspaceValues {
  double start, step, stop;
  int64_t stop_at;  // the element that is exactly stop; -1: none

  explicit LinspaceValues(const op::Linspace& op) : start(op.start), stop(*op.stop) {
    const int64_t intervals = std::max<int64_t>(1, op.endpoint ? op.num - 1 : op.num);
    step = (stop - start) / double(intervals);
    stop_at = op.endpoint ? intervals : -1;
  }
  KAON_HOST_DEVICE double operator()(int64_t i) const { return i == stop_at ? stop : sequence_value(start, i, step); }
};

}  // namespace kaon::ops

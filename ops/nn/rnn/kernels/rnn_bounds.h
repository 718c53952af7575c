// The bounds of a cell's c, for both devices.
#pragma once

#include <optional>

#include "kaon/ops/math/dispatch.h"

namespace kaon::ops {

// The bounds as numbers of this dtype: the gradient compares them with c as that is stored.
template <class Op>
Op with_rounded_bounds(Op op, DType dtype) {
  if (!op.clip_min) return op;
  dispatch_float("_rnn_scan", dtype, [&]<class T>() {
    for (std::optional<double>* bound : {&op.clip_min, &op.clip_max}) *bound = double(accumulate_t<T>(T(**bound)));
  });
  return op;
}

}  // namespace kaon::ops

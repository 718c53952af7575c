// The moving average of IdentityAttachKLSparseReg, for both devices.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// momentum * old + (1 - momentum) * the mean of `count` numbers, `step` apart; of none, old.
template <class X, class T>
KAON_HOST_DEVICE inline T moved_average(const X* x, int64_t count, int64_t step, T old, double momentum) {
  if (count == 0) return old;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(T(x[i * step]));
  return T(momentum * double(old) + (1 - momentum) * (sum / double(count)));
}

}  // namespace kaon::ops

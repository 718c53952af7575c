// The rule of _contrib_group_adagrad_update for the elements of a row, on both devices. A light header.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/optim/optim.h"

namespace kaon::ops {

template <class A>
struct GroupAdagrad {
  A lr, rescale, clip, epsilon;

  explicit GroupAdagrad(const op::GroupAdagradUpdate& op)
      : lr(A(op.lr)), rescale(A(op.rescale_grad)), clip(A(op.clip_gradient)), epsilon(A(op.epsilon)) {}

  KAON_HOST_DEVICE A clipped(A grad) const {
    const A g = grad * rescale;
    if (clip < 0) return g;
    const A below = g > clip ? clip : g;  // NaN stays
    return below < -clip ? -clip : below;
  }
  KAON_HOST_DEVICE A square(A grad) const { return clipped(grad) * clipped(grad); }
  KAON_HOST_DEVICE A rate(A history) const { return lr / ::sqrt(history + epsilon); }
};

}  // namespace kaon::ops

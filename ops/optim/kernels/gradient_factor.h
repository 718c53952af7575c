// What follows from the norm of all gradients, for both devices. A light header.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/optim/optim.h"

namespace kaon::ops {

KAON_HOST_DEVICE inline double clip_factor(double norm, double clip_global_norm) {
  if (clip_global_norm < 0 || norm <= clip_global_norm) return 1;
  return norm < HUGE_VAL ? clip_global_norm / (norm + 1e-8) : NAN;  // of a NaN too
}

// Of the sum of the squares of all gradients.
KAON_HOST_DEVICE inline float gradient_factor(const op::GradientFactor& op, double squares, float*) {
  return float(clip_factor(::sqrt(squares) * ::fabs(op.rescale_grad), op.clip_global_norm));
}

KAON_HOST_DEVICE inline float gradient_factor(const op::LossScale& op, double squares, float* state) {
  const double scale = double(state[0]), divisor = op.unscaled ? 1 : scale;
  if (!(squares < HUGE_VAL)) {
    const double less = scale / op.scale_factor;
    state[0] = float(less > op.min_scale ? less : op.min_scale);
    state[1] = 0;
    return 0;
  }
  state[1] += 1;
  if (double(state[1]) >= op.scale_window) {
    const double more = scale * op.scale_factor;
    state[0] = float(more < op.max_scale ? more : op.max_scale);
    state[1] = 0;
  }
  return float(clip_factor(::sqrt(squares) * ::fabs(op.rescale_grad) / divisor, op.clip_global_norm) / divisor);
}

// The state of a loss scale, if there is one.
inline float* scale_state(const op::GradientFactor&, const KernelContext&) { return nullptr; }
inline float* scale_state(const op::LossScale&, const KernelContext& c) { return c.in(0).as<float>(); }

}  // namespace kaon::ops

// The rules of the update operators. A light header: .cu files read it.
#pragma once

#include "kaon/ops/optim/kernels/update_kernel.h"
#include "kaon/ops/optim/optim.h"

namespace kaon::ops {

inline UpdateRule rule_of(const op::SGDUpdate& op) { return {.rescale = op.rescale_grad, .clip = op.clip_gradient}; }
inline UpdateRule rule_of(const op::MultiSGDUpdate& op) {
  return {.rescale = op.rescale_grad, .clip = op.clip_gradient};
}

template <class Op>
UpdateRule momentum_rule(const Op& op) {
  return {
      .kind = UpdateKind::sgd_momentum, .momentum = op.momentum, .rescale = op.rescale_grad, .clip = op.clip_gradient};
}
inline UpdateRule rule_of(const op::SGDMomUpdate& op) { return momentum_rule(op); }
inline UpdateRule rule_of(const op::MultiSGDMomUpdate& op) { return momentum_rule(op); }

template <class Op>
UpdateRule adam_rule(const Op& op) {
  return {.kind = UpdateKind::adam,
          .beta1 = op.beta1,
          .beta2 = op.beta2,
          .epsilon = op.epsilon,
          .rescale = op.rescale_grad,
          .clip = op.clip_gradient};
}
inline UpdateRule rule_of(const op::AdamUpdate& op) { return adam_rule(op); }
inline UpdateRule rule_of(const op::MultiAdamUpdate& op) { return adam_rule(op); }

}  // namespace kaon::ops

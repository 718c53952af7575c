#include "kaon/gluon/util/amp.h"

#include <fmt/format.h>

#include "kaon/graph/autograd.h"

namespace kaon::amp {

NDArray detail::scale_of(const NDArray& state, DType dtype) {
  autograd::ModeScope mode(false, false);
  const NDArray scale = state.slice(0, 1);
  return dtype == scale.dtype() ? scale.copy() : scale.astype(dtype);
}

void init_trainer(gluon::Trainer& trainer, const LossScaleOptions& o) {
  if (trainer.scales_losses()) throw StateError("[amp] the losses of this trainer are scaled already");
  if (trainer.overlap_update_) {
    throw StateError(
        "[amp] a step that overflows leaves all parameters alone, and overlap_update updates some before "
        "all gradients are there");
  }
  if (!trainer.optimizer_.rule().takes_factor()) {
    throw StateError("[amp] the rule of this optimizer takes no factor: it could not leave a step out");
  }
  if (!(o.init_scale >= o.min_scale && o.init_scale <= o.max_scale) || !(o.scale_factor > 1) ||
      !(o.scale_window >= 1) || !(o.min_scale > 0) || !(o.max_scale >= o.min_scale)) {
    throw ValueError(fmt::format(
        "[amp] init_scale {} must be from min_scale to max_scale, scale_factor {} above 1, scale_window {} 1 "
        "or more, and min_scale {} above 0 and at most max_scale {}",
        o.init_scale, o.scale_factor, o.scale_window, o.min_scale, o.max_scale));
  }
  trainer.scaling_ = gluon::Trainer::Scaling{.options = o, .state = {}};
}

NDArray scale_loss(const NDArray& loss, gluon::Trainer& trainer) {
  const NDArray& state = trainer.scale_state(loss.device());
  trainer.scaling_->has_scaled = true;
  return loss * detail::scale_of(state, loss.dtype());
}

void unscale(gluon::Trainer& trainer) {
  autograd::ModeScope mode(false, false);
  trainer.scale_state(Device());  // throws where losses are not scaled
  if (trainer.scaling_->unscaled) throw StateError("[amp] the gradients of this step have been divided already");
  for (const auto& s : trainer.slots_) {
    const gluon::Parameter& p = s.parameter;
    if (p.grad_req() == GradReq::null || !p.is_initialized()) continue;
    if (p.has_row_sparse_grad()) {
      throw StateError(fmt::format("[amp] the gradient of {} is row_sparse: step() alone divides it", p.name()));
    }
    NDArray g = p.grad();
    g /= detail::scale_of(trainer.scale_state(g.device()), g.dtype());
  }
  trainer.scaling_->unscaled = true;
}

}  // namespace kaon::amp

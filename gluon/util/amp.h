// Mixed precision: losses in a scale, so that small gradients of float16 do not become 0. MXNet's amp.
//
//     net.cast(DType::float16);
//     gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.multi_precision = true}));
//     amp::init_trainer(trainer);
//     autograd::record([&] { return amp::scale_loss(loss_fn(net(x), y), trainer); }).backward();
//     trainer.step(batch_size);
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/trainer.h"

namespace KAON_API kaon {
namespace amp {

// From now on step() takes gradients of scale_loss(). Where one of them is not finite, weights and states stay as they
// are and the scale falls, without a wait; a TrainingStep scales its loss itself. bfloat16 has the range of float32 and
// needs no scale. Nothing blocks. Throws ValueError for options out of range, StateError for an optimizer whose rule
// takes no factor, and the second time.
KAON_API void init_trainer(gluon::Trainer& trainer, const LossScaleOptions& options = {});

// loss times the scale, in the loss's dtype; recorded. Losses of float16 are better cast to float32 before: the scale
// falls until they fit. Throws StateError before init_trainer().
KAON_API NDArray scale_loss(const NDArray& loss, gluon::Trainer& trainer);

// Divides the gradients by the scale, so that the program can look at them, or change them, before step(). Throws
// StateError before init_trainer(), when that is done already, and for a row_sparse gradient.
KAON_API void unscale(gluon::Trainer& trainer);

namespace detail {
// Of the state of a scale: a copy, which later steps do not change.
NDArray scale_of(const NDArray& state, DType dtype);
}  // namespace detail

}  // namespace amp
}  // namespace kaon

// What a Trainer does over ranks.
#include <fmt/format.h>

#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/gluon/internal/shards.h"
#include "kaon/gluon/trainer.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon {

void Trainer::check_shards() const {
  if (ranks_->shards() == 0 || has_shards_) return;
  throw StateError(
      "[Trainer.step] deterministic adds gradients up by shards: compute them by backward_by_shards() or a "
      "TrainingStep");
}

void Trainer::refuse_gradients_without_shards(const char* caller) const {
  for (const Slot& s : slots_) {
    const Parameter& p = s.parameter;
    const bool is_on_several = p.is_initialized() ? detail::is_on_several_devices(p) : p.list_ctx().size() > 1;
    if (p.grad_req() != GradReq::add && !is_on_several) continue;
    throw StateError(fmt::format("[{}] deterministic takes gradients with grad_req write on one device, that of {} {}",
                                 caller, p.name(), p.grad_req() == GradReq::add ? "has add" : "is on several"));
  }
}

// everywhere: not on the ranks alone that update.
void Trainer::add_up_over_ranks(bool everywhere) {
  has_shards_ = false;
  ranks_->all_reduce(everywhere || clip_global_norm_ > 0 || scaling_);
}

// Those that this rank updates. States of others may come from a file.
std::span<Trainer::Slot* const> Trainer::owned(std::span<Slot* const> slots) {
  if (!ranks_ || !ranks_->gives_owners()) return slots;
  ranks_->prepare();
  owned_.clear();
  for (Slot* s : slots) {
    if (ranks_->owns(s->parameter)) {
      owned_.push_back(s);
    } else {
      s->states.clear();
    }
  }
  return owned_;
}

NDArray Trainer::backward_by_shards(std::span<const NDArray> inputs,
                                    const std::function<NDArray(std::span<const NDArray>)>& loss,
                                    std::source_location site) {
  if (inputs.empty()) throw ValueError("[Trainer.backward_by_shards] there are no inputs");
  engine::PooledVector<const NDArray*> arrays;
  for (const NDArray& a : inputs) arrays.push_back(&a);
  const bool by_tree = ranks_ && ranks_->shards() > 0;
  const detail::Shards shards(arrays, by_tree ? ranks_.get() : nullptr, "Trainer.backward_by_shards");
  if (by_tree) refuse_gradients_without_shards("Trainer.backward_by_shards");
  engine::PooledVector<NDArray> losses;
  for (int i = 0; i < shards.count(); ++i) {
    const auto part = shards.begin(i);
    const NDArray l = autograd::record([&] { return loss(part); });
    l.backward(site);
    losses.push_back(l.detach());
    if (by_tree) ranks_->end_shard(i);
  }
  has_shards_ = by_tree;
  return detail::Shards::joined(losses);
}

}  // namespace kaon::gluon

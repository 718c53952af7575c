// What a Trainer does over ranks.
#include <fmt/format.h>

#include <exception>
#include <vector>

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

// --- bucket by bucket

void Trainer::check_overlap(const TrainerOptions& options, const optimizer::Optimizer& optimizer) {
  if (!options.overlap_update) return;
  const auto refuse = [](const std::string& what, const char* why) {
    throw ValueError(fmt::format(
        "[Trainer] overlap_update updates parameters before all gradients are there, and {} {}", what, why));
  };
  if (options.clip_global_norm > 0) refuse("clip_global_norm", "needs the norm of all of them");
  if (options.shard_states) refuse("shard_states", "sends the parameters after the whole update");
  if (optimizer.rule().draws_random_numbers()) {
    refuse(optimizer.name().empty() ? "the optimizer, which draws random numbers," : optimizer.name(),
           "trains with shard_states, which sends the parameters after the whole update");
  }
}

void Trainer::note_failure(const std::string& why) {
  if (failed_.empty()) failed_ = why;
}

void Trainer::check_whole() const {
  if (failed_.empty()) return;
  throw StateError(
      fmt::format("[Trainer] an earlier step has failed, and with overlap_update some parameters may be those after it "
                  "and others those before it: load the last checkpoint. What failed: {}",
                  failed_));
}

void Trainer::find_groups(std::span<Slot* const> slots) {
  if (bucket_layout_ != ranks_->layout()) {
    bucket_of_.assign(slots_.size(), 0);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Parameter& p = slots_[i].parameter;
      if (p.grad_req() == GradReq::null || !p.is_initialized()) continue;
      bucket_of_[i] = ranks_->buckets_of(std::span(&p, 1))[0];
    }
    bucket_layout_ = ranks_->layout();
  }
  groups_.resize(ranks_->size());
  for (auto& group : groups_) group.clear();
  for (Slot* s : slots) groups_[bucket_of_[size_t(s - slots_.data())]].push_back(s);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].empty()) rates(groups_[g], g);
  }
}

void Trainer::update_buckets(std::span<Slot* const> slots, int64_t batch_size, const std::source_location& site) {
  find_groups(slots);
  for (Slot* s : slots) complete_states(*s);
  const UpdatePlan plan = update_plan(batch_size);
  try {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].empty()) continue;
      gradients_.clear();
      gradients_.reserve(groups_[g].size());
      arrays_.clear();
      for (const Slot* s : groups_[g]) {
        const detail::ParameterValues values(s->parameter);
        gradients_.push_back(values.grad(0));
        arrays_.push_back(&values[0]);
        arrays_.push_back(&gradients_.back());
        for (const NDArray& state : s->states) arrays_.push_back(&state);
      }
      const NDArray numbers = rates(groups_[g], g);
      arrays_.push_back(&numbers);
      push_step([&] { return plan.apply(arrays_, site); });
    }
  } catch (const std::exception& e) {  // some have been pushed
    note_failure(e.what());
    throw;
  }
  gradients_.clear();
  end_update(slots);
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

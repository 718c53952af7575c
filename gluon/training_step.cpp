#include "kaon/gluon/training_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/gluon/internal/shards.h"
#include "kaon/graph/memory/plan_arenas.h"

namespace kaon::gluon {

using namespace graph;

// A trace, with the trainer's settings that its plans depend on.
struct TrainingStep::Program {
  std::shared_ptr<const detail::Traced> traced;
  std::vector<TensorMeta> metas;  // of the data where the trace has read its shapes
  Ends ends;
  int64_t divisor;  // of the gradients in the update; 0: none follows in the plan
  double clip_gradient;
  bool scales_losses;
  std::vector<GradReq> requests;   // by slot of the trainer
  std::vector<size_t> slots;       // of the trainer, by parameter; no_slot: not trained
  std::vector<size_t> summed;      // among the trained: those with grad_req add
  std::vector<uint32_t> returned;  // among the trained: those whose gradients are outputs
  uint64_t layout = 0;             // of the buckets that take these
  std::shared_ptr<CachedGraph> graph;
};

// The memory in which the plans of all programs take turns.
struct TrainingStep::Arenas {
  IntrusivePtr<PlanArenas> plans{new PlanArenas};
};

namespace {

constexpr size_t no_slot = size_t(-1);

int64_t batch_size_of(const NDArray& data) {
  if (data.ndim() == 0) throw ShapeError("[TrainingStep] data must have a batch axis, got a scalar");
  if (data.shape()[0] == 0) throw ShapeError("[TrainingStep] data has no samples");
  return data.shape()[0];
}

std::vector<TensorMeta> metas_of(std::span<const NDArray* const> inputs) {
  std::vector<TensorMeta> metas;
  for (const NDArray* a : inputs) metas.push_back({a->shape(), a->dtype()});
  return metas;
}

// Whether the inputs have these shapes and dtypes. No metas fit any inputs.
bool fit(std::span<const TensorMeta> metas, std::span<const NDArray* const> inputs) {
  for (size_t i = 0; i < metas.size(); ++i) {
    if (!(metas[i].shape == inputs[i]->shape()) || metas[i].dtype != inputs[i]->dtype()) return false;
  }
  return true;
}

engine::PooledVector<const NDArray*> pointers_to(std::span<const NDArray> inputs) {
  if (inputs.empty()) throw ValueError("[TrainingStep] there are no inputs");
  engine::PooledVector<const NDArray*> all;
  for (const NDArray& a : inputs) all.push_back(&a);
  return all;
}

constexpr const char* scale_name = "loss_scale";

// The traced program; where losses are scaled, gradients flow through a further output alone, the last: the loss times
// the scale.
Symbol program_of(const Symbol& traced, bool scales_losses) {
  if (!scales_losses) return traced;
  std::vector<Symbol> outputs;
  for (int64_t i = 0; i < traced.num_outputs(); ++i) outputs.push_back(traced.output(int(i)).detach());
  const Symbol state = Symbol::variable(scale_name, Shape(2), DType::float32);
  const Symbol scale = sym.slice_axis(state, 0, 0, 1);
  const Symbol loss = traced.output(0);
  outputs.push_back(sym.broadcast_mul(loss, loss.dtype() == DType::float32 ? scale : sym.cast(scale, loss.dtype())));
  return Symbol::group(outputs);
}

}  // namespace

TrainingStep::TrainingStep(Trainer& trainer, const HybridizeOptions& options, Trace trace)
    : trainer_(&trainer), options_(options), trace_(std::move(trace)), arenas_(std::make_shared<Arenas>()) {}

detail::Traced TrainingStep::run_trace(std::span<const NDArray* const> inputs, const std::source_location& site) const {
  return detail::run_trace(inputs, [&](std::span<const Symbol> in) { return detail::FlatSymbols{trace_(in, site)}; },
                           {.is_plan = true});
}

int64_t TrainingStep::divisor(std::span<const NDArray* const> inputs, Ends ends) const {
  const int64_t samples = batch_size_of(*inputs[0]);
  return ends != Ends::with_update ? 0 : batch_size_ > 0 ? batch_size_ : samples;
}

bool TrainingStep::fits(const Program& p, std::span<const NDArray* const> inputs, Ends ends) const {
  if (p.traced->input_names.size() != inputs.size() || !fit(p.metas, inputs)) return false;
  if (p.ends != ends || p.divisor != divisor(inputs, ends)) return false;
  if (ends == Ends::with_gradients && p.layout != trainer_->ranks_->layout()) return false;
  if (p.divisor > 0 && p.clip_gradient != trainer_->optimizer_.step_options(1).clip_gradient) return false;
  if (p.scales_losses != trainer_->scales_losses()) return false;
  for (size_t s = 0; s < p.requests.size(); ++s) {
    if (trainer_->slots_[s].parameter.grad_req() != p.requests[s]) return false;
  }
  return true;
}

std::shared_ptr<TrainingStep::Program> TrainingStep::make(std::span<const NDArray* const> inputs, Ends ends,
                                                          const std::source_location& site) const {
  const bool updates = ends == Ends::with_update;
  auto made = std::make_shared<Program>();
  made->ends = ends;
  made->divisor = divisor(inputs, ends);
  for (const auto& p : programs_) {
    if (made->traced || p->traced->input_names.size() != inputs.size()) continue;
    if (fit(p->metas, inputs)) made->traced = p->traced, made->metas = p->metas;
  }
  if (!made->traced) {
    made->traced = std::make_shared<detail::Traced>(run_trace(inputs, site));
    if (made->traced->read_shapes) made->metas = metas_of(inputs);
  }
  const std::vector<Parameter>& parameters = made->traced->parameters;
  made->slots.assign(parameters.size(), no_slot);
  std::vector<std::string> names = made->traced->input_names;
  for (const Parameter& p : parameters) names.push_back(p.name());
  auto update = std::make_shared<Update>();
  update->num_states = updates ? trainer_->optimizer_.rule().num_states() : 0;
  update->first_state = names.size();
  update->wanted.assign(names.size(), false);
  std::vector<std::string> states;
  for (size_t s = 0; s < trainer_->slots_.size(); ++s) {
    const Parameter& p = trainer_->slots_[s].parameter;
    made->requests.push_back(p.grad_req());
    if (p.grad_req() == GradReq::null) continue;
    if (p.list_ctx().size() > 1) {
      throw StateError(
          fmt::format("[TrainingStep] {} is on {} devices: record(), backward() and Trainer::step() add up "
                      "their gradients",
                      p.name(), p.list_ctx().size()));
    }
    if (ends == Ends::with_sums && p.grad_req() != GradReq::add) {
      throw StateError(
          fmt::format("[TrainingStep.accumulate] the grad_req of {} must be add, got write, with which each batch "
                      "overwrites the gradient of the one before",
                      p.name()));
    }
    // Within a step the gradient is a dense one, which gives what a Trainer gives unless that looks at rows.
    if (p.has_row_sparse_grad() && (trainer_->optimizer_.rule().updates_rows() || p.grad_req() == GradReq::add)) {
      throw StateError(
          fmt::format("[TrainingStep] the gradient of {} is row_sparse, and {}: use record(), backward() and "
                      "Trainer::step(), or make the Embedding without sparse_grad",
                      p.name(),
                      p.grad_req() == GradReq::add ? "its grad_req is add"
                                                   : "the optimizer changes the rows that it stores alone"));
    }
    const auto at = std::find(parameters.begin(), parameters.end(), p);
    if (at == parameters.end()) {
      throw StateError(
          fmt::format("[TrainingStep] the loss does not depend on {}, which the trainer is to change; set "
                      "its grad_req to null or leave it out",
                      p.name()));
    }
    const size_t i = size_t(at - parameters.begin());
    made->slots[i] = s;
    update->wanted[inputs.size() + i] = true;
  }
  size_t trained = 0;
  std::vector<Parameter> returned;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (made->slots[i] == no_slot) continue;
    if (parameters[i].grad_req() == GradReq::add) {
      made->summed.push_back(trained);
    } else if (ends == Ends::with_gradients) {
      made->returned.push_back(uint32_t(trained));
      returned.push_back(parameters[i]);
    }
    ++trained;
    for (int k = 0; k < update->num_states; ++k) names.push_back(fmt::format("{} state{}", parameters[i].name(), k));
  }
  if (trained == 0) throw StateError("[TrainingStep] the trainer has no parameter to change");
  if (trainer_->ranks_) share_values();  // of parameters whose shapes the trace has found
  if (ends == Ends::with_gradients) {
    made->layout = trainer_->ranks_->layout();
    update->returned = made->returned;
    update->groups = trainer_->ranks_->buckets_of(returned);
    if (trainer_->overlaps_update()) {
      update->read_groups.assign(names.size(), Update::no_group);
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (made->slots[i] == no_slot) continue;
        update->read_groups[inputs.size() + i] = trainer_->ranks_->buckets_of(std::span(&parameters[i], 1))[0];
      }
    }
  }
  const size_t end_of_states = names.size();
  if (updates) names.push_back("learning rates");
  made->scales_losses = trainer_->scales_losses();
  if (made->scales_losses) names.push_back(scale_name);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (made->slots[i] != no_slot && parameters[i].grad_req() == GradReq::add) {
      names.push_back(fmt::format("{} gradient", parameters[i].name()));
    }
  }
  update->num_shared = names.size() - end_of_states;
  update->wanted.resize(names.size(), false);
  Trainer::UpdatePlan plan = trainer_->update_plan(updates ? made->divisor : 1);
  plan.unscaled = false;
  made->clip_gradient = plan.options.clip_gradient;
  update->apply = [plan, updates, summed = made->summed,
                   group = size_t(2 + update->num_states)](std::span<const NDArray* const> arrays) {
    std::vector<const NDArray*> all(arrays.begin(), arrays.end() - ptrdiff_t(summed.size()));
    std::vector<NDArray> pairs;
    for (size_t k = 0; k < summed.size(); ++k) {
      const NDArray* const sum = arrays[all.size() + k];
      const NDArray*& gradient = all[group * summed[k] + 1];
      pairs.insert(pairs.end(), {*sum, *gradient});
      gradient = sum;
    }
    if (!pairs.empty()) nd._kaon_multi_add(pairs);
    if (updates) plan.apply(all, std::source_location::current());
  };
  made->graph = std::make_shared<CachedGraph>(program_of(made->traced->program, made->scales_losses), names, options_,
                                              "training step", update, arenas_->plans);
  return made;
}

void TrainingStep::refuse_new_shapes(std::span<const NDArray* const> inputs, Ends ends) const {
  if (options_.policy != PlanPolicy::error) return;
  for (const auto& p : programs_) {
    if (p->traced->input_names.size() != inputs.size()) continue;
    if (p->ends != ends) continue;
    if (p->divisor != divisor(inputs, ends) && batch_size_ == 0) {
      throw StateError(
          fmt::format("[TrainingStep] policy error: nothing is planned for data dim 0: {} -> {}; plans: {}", p->divisor,
                      batch_size_of(*inputs[0]), programs_.size()));
    }
    if (!fit(p->metas, inputs)) {
      throw StateError(fmt::format("[TrainingStep] policy error: nothing is planned for {}; plans: {}",
                                   describe_change(p->traced->input_names, p->metas, metas_of(inputs)),
                                   programs_.size()));
    }
  }
}

TrainingStep::Program& TrainingStep::find(std::span<const NDArray* const> inputs, Ends ends,
                                          const std::source_location& site) {
  std::erase_if(programs_, [](const auto& p) { return p->traced->is_outdated(); });
  auto found = std::find_if(programs_.begin(), programs_.end(), [&](const auto& p) { return fits(*p, inputs, ends); });
  if (found == programs_.end()) {
    refuse_new_shapes(inputs, ends);
    std::shared_ptr<Program> made = make(inputs, ends, site);
    if (programs_.size() >= size_t(options_.max_plans)) programs_.pop_back();
    found = programs_.insert(programs_.end(), std::move(made));
  }
  std::rotate(programs_.begin(), found, found + 1);
  return *programs_.front();
}

void detail::refuse_inputs(size_t expected, size_t got) {
  throw ValueError(fmt::format("[TrainingStep] the loss is a function of {} inputs, got {}", expected, got));
}

NDArray TrainingStep::operator()(const NDArray& data, const NDArray& label, std::source_location site) {
  const NDArray* const inputs[] = {&data, &label};
  return step(inputs, site);
}

NDArray TrainingStep::operator()(std::span<const NDArray> inputs, std::source_location site) {
  return step(pointers_to(inputs), site);
}

NDArray TrainingStep::accumulate(const NDArray& data, const NDArray& label, std::source_location site) {
  const NDArray* const inputs[] = {&data, &label};
  return step(inputs, site, Ends::with_sums);
}

NDArray TrainingStep::accumulate(std::span<const NDArray> inputs, std::source_location site) {
  return step(pointers_to(inputs), site, Ends::with_sums);
}

void TrainingStep::set_batch_size(int64_t samples) {
  if (samples < 0) {
    throw ValueError(fmt::format("[TrainingStep.set_batch_size] expected a number of samples, got {}", samples));
  }
  batch_size_ = samples;
}

// Before the first gradients, so that all ranks compute these with the same weights.
void TrainingStep::share_values() const {
  trainer_->ranks_->share_values();
  trainer_->ranks_->prepare();
}

NDArray TrainingStep::step_over_ranks(std::span<const NDArray* const> inputs, const std::source_location& site) {
  detail::GradientBuckets& ranks = *trainer_->ranks_;
  const int64_t samples = batch_size_of(*inputs[0]);
  const bool by_tree = ranks.shards() > 0;
  autograd::ModeScope mode(false, true);
  share_values();
  NDArray loss;
  if (!by_tree) {
    loss = run(inputs, site, Ends::with_gradients);
  } else {
    trainer_->refuse_gradients_without_shards("TrainingStep");
    const detail::Shards shards(inputs, &ranks, "TrainingStep");
    engine::PooledVector<NDArray> losses;
    engine::PooledVector<engine::PooledVector<NDArray>> outputs;
    for (int i = 0; i < shards.count(); ++i) {
      const auto part = shards.begin(i);
      losses.push_back(run(pointers_to(part), site, Ends::with_gradients));
      outputs.resize(outputs_.size());
      for (size_t k = 0; k < outputs_.size(); ++k) outputs[k].push_back(outputs_[k]);
      ranks.end_shard(i);
    }
    loss = detail::Shards::joined(losses);
    for (size_t k = 0; k < outputs.size(); ++k) outputs_[k] = detail::Shards::joined(outputs[k]);
    trainer_->has_shards_ = true;
  }
  if (trainer_->scaling_) trainer_->scaling_->has_scaled = true;
  autograd::ModeScope update_mode(false, false);
  trainer_->add_up_over_ranks(false);
  const int64_t all_samples = batch_size_ > 0 ? batch_size_ : samples * ranks.ranks().size();
  if (trainer_->overlaps_update()) {
    trainer_->update_buckets(slots_, all_samples, site);
  } else {
    trainer_->update_slots(slots_, all_samples, site);
  }
  return loss;
}

NDArray TrainingStep::step(std::span<const NDArray* const> inputs, const std::source_location& site, Ends ends) {
  if (autograd::is_recording()) {
    throw StateError("[TrainingStep] takes its gradients itself: call it outside of record()");
  }
  trainer_->throw_failure_of_earlier_step();
  if (trainer_->ranks_ && ends == Ends::with_update) return step_over_ranks(inputs, site);
  return run(inputs, site, ends);
}

NDArray TrainingStep::run(std::span<const NDArray* const> inputs, const std::source_location& site, Ends ends) {
  const bool updates = ends == Ends::with_update;
  autograd::ModeScope mode(false, true);
  Program& p = find(inputs, ends, site);
  if (!p.summed.empty() && p.scales_losses && trainer_->scaling_->unscaled) {
    throw StateError("[TrainingStep] the summed gradients have been divided by amp::unscale(): call Trainer::step()");
  }
  const std::vector<Parameter>& parameters = p.traced->parameters;
  slots_.clear();
  held_.clear();
  for (size_t i = 0; i < parameters.size(); ++i) {
    held_.push_back(parameters[i].data());
    if (p.slots[i] == no_slot) continue;
    slots_.push_back(&trainer_->slots_[p.slots[i]]);
    if (updates) trainer_->complete_states(*slots_.back());
  }
  if (updates) {
    for (const Trainer::Slot* s : slots_) held_.insert(held_.end(), s->states.begin(), s->states.end());
    held_.push_back(trainer_->rates(slots_));
  }
  if (p.scales_losses)
    held_.push_back(trainer_->scale_state(detail::ParameterValues(slots_[0]->parameter)[0].device()));
  for (size_t k : p.summed) held_.push_back(slots_[k]->parameter.grad());
  arrays_.assign(inputs.begin(), inputs.end());
  for (const NDArray& a : held_) arrays_.push_back(&a);
  results_.assign(p.graph->num_outputs(), NDArray());
  const size_t own = results_.size() - p.returned.size();  // those of the program
  for (size_t k = 0; k < p.returned.size(); ++k) results_[own + k] = slots_[p.returned[k]]->parameter.grad();
  auto retrace = [&] { return program_of(run_trace(inputs, site).program, p.scales_losses); };
  const auto push = [&] {
    p.graph->call_into(arrays_, results_, site, nullptr, retrace);
    return results_[0];
  };
  if (ends == Ends::with_gradients) {
    push();  // the update fails with it
  } else {
    trainer_->push_step(push);
  }
  const NDArray loss = std::move(results_[0]);
  outputs_.assign(std::make_move_iterator(results_.begin() + 1),
                  std::make_move_iterator(results_.begin() + ptrdiff_t(own) - (p.scales_losses ? 1 : 0)));
  results_.clear();
  held_.clear();
  for (size_t k : p.summed) autograd::stamp_gradient(slots_[k]->parameter.data());
  for (size_t k : p.returned) autograd::stamp_gradient(slots_[k]->parameter.data());
  if (p.scales_losses && !p.summed.empty()) trainer_->scaling_->has_scaled = !updates;
  if (!updates) return loss;
  for (Trainer::Slot* s : slots_) ++s->updates;
  for (size_t k : p.summed) slots_[k]->keep_stamps();
  ++trainer_->steps_;
  return loss;
}

IntrusivePtr<PlanReport> TrainingStep::plan() const {
  if (programs_.empty()) throw StateError("[TrainingStep] no step has been taken yet");
  return programs_.front()->graph->report();
}

}  // namespace kaon::gluon

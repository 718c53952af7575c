#include "kaon/gluon/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <typeinfo>

#include "kaon/engine/block_pool.h"
#include "kaon/gluon/internal/described_rule.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/gluon/kvstore/kvstore.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::gluon {

namespace {

// Filled before it returns: no wait reports a failed state (no memory, a stopped scope), which would silently end all
// updates.
NDArray make_state(const optimizer::RuleState& state, const NDArray& weight) {
  if (state.is_weight) {
    NDArray copy = state.dtype == weight.dtype() ? weight.copy() : weight.astype(state.dtype);
    copy.wait_to_read();
    return copy;
  }
  if (weight.device().type != DeviceType::cpu) {
    NDArray zeros = nd.zeros(state.shape, {.dtype = state.dtype, .device = weight.device()});
    zeros.wait_to_read();
    return zeros;
  }
  NDArray zeros = NDArray::empty(state.shape, state.dtype, weight.device());
  std::memset(zeros.node().data(), 0, zeros.node().bytes());
  return zeros;
}

// A weight and its states by the rows that a row_sparse gradient stores.
struct RowUpdate {
  RowUpdate(const NDArray& weight, std::span<const NDArray> states, const sparse::RowSparseNDArray& gradient)
      : indices(gradient.indices()), whole{weight} {
    whole.insert(whole.end(), states.begin(), states.end());
    for (const NDArray& a : whole) {
      arrays.push_back(has_rows(a) ? nd.take(a, indices, {.axis = 0}) : a);
      if (arrays.size() == 1) arrays.push_back(gradient.data());
    }
  }
  // A state that a rule keeps for other weights only is empty, (0,); a state of rows may have fewer columns.
  bool has_rows(const NDArray& a) const {
    return a.ndim() == whole[0].ndim() && a.shape()[0] == whole[0].shape()[0] && !(a.ndim() == 1 && a.size() == 0);
  }
  void put_back() const {
    for (size_t i = 0; i < whole.size(); ++i) {
      if (has_rows(whole[i])) whole[i].at(indices) = arrays[i + (i > 0)];
    }
  }

  NDArray indices;
  std::vector<NDArray> whole, arrays;  // weight, states; as Rule::update has them
};

// A line for each setting with which ranks that differ would get different weights, or wait for each other. Of a
// scheduler the first rate: a function of the program may have no more.
std::vector<std::string> settings_of(const TrainerOptions& options, const optimizer::Optimizer& o) {
  const optimizer::Rule& rule = o.rule();
  const CompressionParams& compression = options.compression_params;
  std::vector<std::string> all{
      fmt::format("optimizer {}", o.name().empty() ? typeid(rule).name() : o.name()),
      fmt::format("{} {}", o.has_scheduler() ? "first rate of the lr_scheduler" : "learning_rate", o.learning_rate(1)),
      fmt::format("wd {}", o.wd()),
      fmt::format("clip_gradient {}", o.step_options(1).clip_gradient),
      fmt::format("clip_global_norm {}", options.clip_global_norm),
      fmt::format("compression_params of type {} and threshold {}", compression.type, compression.threshold),
      fmt::format("deterministic {}, shards {}", options.deterministic, options.shards),
      fmt::format("shard_states {}", options.shard_states),
      fmt::format("overlap_update {}", options.overlap_update)};
  if (const auto* described = dynamic_cast<const optimizer::detail::DescribedRule*>(&rule)) {
    for (std::string& line : described->settings()) all.push_back(std::move(line));
  }
  return all;
}

}  // namespace

Trainer::Trainer(const ParameterDict& parameters, const optimizer::Optimizer& optimizer, const TrainerOptions& options)
    : optimizer_(optimizer),
      clip_global_norm_(options.clip_global_norm),
      store_(std::make_shared<const KVStore>(KVStore::create(options.kvstore))),
      overlap_update_(options.overlap_update) {
  if (!(options.clip_global_norm >= 0)) {
    throw ValueError(
        fmt::format("[Trainer] clip_global_norm must be above 0, or 0 for none, got {}", options.clip_global_norm));
  }
  for (const Parameter& p : parameters) slots_.push_back({.parameter = p, .states = {}});
  const bool asks_for_ranks = options.deterministic || options.shard_states || options.overlap_update ||
                              options.compression_params.type != "none";
  if (asks_for_ranks && !store_->ranks().defined()) {
    throw ValueError(
        fmt::format("[Trainer] deterministic, shard_states, overlap_update and compression_params are for kvstore "
                    "dist_sync, got '{}'",
                    options.kvstore));
  }
  check_overlap(options, optimizer);
  if (store_->num_workers() > 1 || asks_for_ranks) {
    const bool draws = optimizer.rule().draws_random_numbers();
    const detail::BucketOptions buckets{.compression = options.compression_params,
                                        .shards = options.deterministic ? options.shards : 0,
                                        .gives_owners = options.shard_states || draws,
                                        .by_priority = options.overlap_update,
                                        .settings = settings_of(options, optimizer)};
    if (options.deterministic && draws) {
      throw ValueError(
          fmt::format("[Trainer] deterministic: {} draws random numbers on the rank that updates a weight, which are "
                      "others for another number of ranks",
                      optimizer.name().empty() ? "the optimizer" : optimizer.name()));
    }
    if (options.deterministic && options.shards < 1) {
      throw ValueError(fmt::format("[Trainer] shards must be a power of two, got {}", options.shards));
    }
    ranks_ = std::make_shared<detail::GradientBuckets>(store_->ranks(), buckets, this->parameters());
    ranks_->share_values();
    store_ = std::make_shared<const KVStore>(KVStore::create("device"));  // the buckets add up over the ranks
  }
}

int64_t Trainer::num_update() const {
  int64_t n = 0;
  for (const Slot& s : slots_) n = std::max(n, s.updates);
  return n;
}

double Trainer::learning_rate() const { return optimizer_.learning_rate(num_update()); }
void Trainer::set_learning_rate(double lr) { optimizer_.set_learning_rate(lr); }

void Trainer::throw_failure_of_earlier_step() {
  check_whole();
  struct Seen {
    ~Seen() { pending.erase(pending.begin(), pending.begin() + ptrdiff_t(ended)); }
    std::vector<NDArray>& pending;
    size_t ended = 0;
  } seen{pending_};
  while (seen.ended < pending_.size()) {
    const NDArray& earliest = pending_[seen.ended++];
    bool has_ended = true;
    try {
      has_ended = earliest.engine().read_now(earliest.var(), [] {});  // throws its failure
    } catch (const Cancelled&) {
      // dropped with its stopped scope, which waitall() does not report either
      if (overlaps_update()) note_failure("it was dropped with its scope");
    } catch (const Error& e) {
      if (!overlaps_update()) throw;
      note_failure(e.what());
      std::rethrow_exception(
          e.with_context("; with overlap_update some parameters may have been updated all the same: "
                         "load the last checkpoint"));
    } catch (const std::exception& e) {
      if (overlaps_update()) note_failure(e.what());
      throw;
    }
    if (!has_ended) {
      --seen.ended;
      return;
    }
  }
}

bool Trainer::Slot::is_fresh() const {
  const detail::ParameterValues values(parameter);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t stamp = autograd::gradient_stamp(values[i]);
    if (stamp == 0 || (i < stamps.size() && stamp == stamps[i])) return false;
  }
  return true;
}

void Trainer::Slot::keep_stamps() {
  const detail::ParameterValues values(parameter);
  stamps.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) stamps[i] = autograd::gradient_stamp(values[i]);
}

std::span<Trainer::Slot* const> Trainer::all_slots() {
  fresh_.clear();
  for (Slot& s : slots_) fresh_.push_back(&s);
  return fresh_;
}

// A parameter that one rank has used is updated on all of them. Where this rank has not, its gradient counts as zero.
std::vector<bool> Trainer::on_any_rank(std::span<Slot* const> slots) const {
  std::vector<bool> mine;
  for (const Slot* s : slots) mine.push_back(s->is_fresh());
  const std::vector<bool> any = ranks_->on_any(mine);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (any[i] && !mine[i]) slots[i]->parameter.zero_grad();
  }
  return any;
}

std::span<Trainer::Slot* const> Trainer::fresh_slots(bool ignore_stale_grad) {
  fresh_.clear();
  if (ranks_ && ignore_stale_grad) {
    std::vector<Slot*> all;
    for (Slot& s : slots_) {
      if (s.parameter.grad_req() != GradReq::null && s.parameter.is_initialized()) all.push_back(&s);
    }
    const std::vector<bool> any = on_any_rank(all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (any[i]) fresh_.push_back(all[i]);
    }
    return fresh_;
  }
  for (Slot& s : slots_) {
    const Parameter& p = s.parameter;
    if (p.grad_req() == GradReq::null) continue;
    if (ignore_stale_grad && !p.is_initialized()) continue;
    if (s.is_fresh()) {
      fresh_.push_back(&s);
    } else if (!ignore_stale_grad) {
      throw StateError(
          fmt::format("[Trainer.step] the gradient of {} has not been written by backward() since the last step; if "
                      "this step uses only a "
                      "part of the parameters, pass ignore_stale_grad",
                      p.name()));
    }
  }
  return fresh_;
}

void Trainer::complete_states(Slot& slot) {
  const optimizer::Rule& rule = optimizer_.rule();
  const size_t states = size_t(rule.num_states());
  while (slot.states.size() < states) {
    const NDArray& weight = detail::ParameterValues(slot.parameter)[0];
    slot.states.push_back(make_state(rule.state(int(slot.states.size()), weight.shape(), weight.dtype()), weight));
  }
}

NDArray Trainer::rates(std::span<Slot* const> slots, size_t group) {
  int64_t update = num_update();
  for (const Slot* s : slots) update = std::max(update, s->updates + 1);
  const optimizer::Rule& rule = optimizer_.rule();
  const double lr = optimizer_.learning_rate(update), last = update > 1 ? optimizer_.learning_rate(update - 1) : lr;
  if (!(lr >= 0 && std::isfinite(lr))) {
    throw ValueError(fmt::format(
        "[Trainer.step] the lr_scheduler gives the rate {} for update {}: it must be a finite number of at least 0", lr,
        update));
  }
  const size_t numbers = size_t(rule.num_numbers());
  std::vector<float>& values = next_rate_values_;
  values.resize(numbers * slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Parameter& p = slots[i]->parameter;
    rule_numbers_.assign(numbers, 0);
    rule.numbers({.name = p.name(),
                  .lr = lr * p.lr_mult(),
                  .wd = optimizer_.wd() * p.wd_mult(),
                  .t = slots[i]->updates + 1,
                  .rate = lr,
                  .last_rate = last},
                 rule_numbers_);
    for (size_t k = 0; k < numbers; ++k) values[k * slots.size() + i] = float(rule_numbers_[k]);
  }
  if (rates_.size() <= group) rates_.resize(group + 1);
  Rates& kept = rates_[group];
  if (values != kept.values || !kept.array.defined()) {
    const Device device = detail::ParameterValues(slots[0]->parameter)[0].device();
    kept.array = nd.array(values, {int64_t(values.size())}).as_in_context(device);
    std::swap(kept.values, values);
  }
  return kept.array;
}

namespace {

void check_batch_size(int64_t batch_size) {
  if (batch_size < 1) throw ValueError(fmt::format("[Trainer.step] batch_size must be at least 1, got {}", batch_size));
}

void check_scaled(bool is_scaled) {
  if (is_scaled) return;
  throw StateError("[Trainer.step] losses are scaled, but none was since the last step: call amp::scale_loss()");
}

std::vector<NDArray> gradients_of(const Parameter& p) {
  if (p.has_row_sparse_grad()) {
    throw StateError(
        fmt::format("[Trainer.step] the gradient of {} is row_sparse, which is for one device, and it is on "
                    "{}",
                    p.name(), p.list_ctx().size()));
  }
  return p.list_grad();
}

}  // namespace

Trainer::UpdatePlan Trainer::update_plan(int64_t batch_size) const {
  return {.optimizer = optimizer_,
          .options = optimizer_.step_options(1.0 / double(batch_size)),
          .clip_global_norm = clip_global_norm_,
          .scaling = scaling_ ? std::optional(scaling_->options) : std::nullopt,
          .unscaled = scaling_ && scaling_->unscaled};
}

NDArray Trainer::UpdatePlan::apply(std::span<const NDArray* const> arrays, const std::source_location& site,
                                   std::span<const NDArray> all_gradients) const {
  const optimizer::Rule& rule = optimizer.rule();
  if (!scaling && clip_global_norm == 0) return rule.update(arrays, options, site);
  const NDArray* const state = scaling ? arrays.back() : nullptr;
  engine::PooledVector<const NDArray*> all(arrays.begin(), arrays.end() - (state ? 1 : 0)), gradients;
  all.reserve(all.size() + 1);
  gradients.reserve(arrays.size());
  if (state) gradients.push_back(state);
  const size_t group = size_t(2 + rule.num_states());
  for (size_t i = 1; all_gradients.empty() && i + 1 < all.size(); i += group) gradients.push_back(all[i]);
  for (const NDArray& g : all_gradients) gradients.push_back(&g);
  const double most = clip_global_norm > 0 ? clip_global_norm : -1;
  const NDArray factor = state ? nd._kaon_loss_scale(gradients,
                                                     {.rescale_grad = options.rescale_grad,
                                                      .clip_global_norm = most,
                                                      .scale_factor = scaling->scale_factor,
                                                      .scale_window = scaling->scale_window,
                                                      .min_scale = scaling->min_scale,
                                                      .max_scale = scaling->max_scale,
                                                      .unscaled = unscaled},
                                                     site)
                               : nd._kaon_gradient_factor(
                                     gradients, {.rescale_grad = options.rescale_grad, .clip_global_norm = most}, site);
  if (all.empty()) return factor;  // other ranks change all weights
  if (rule.takes_factor()) {
    all.push_back(&factor);
    return rule.update(all, options, site);
  }
  std::vector<NDArray> scaled;
  scaled.reserve(gradients.size());
  for (size_t i = 1; i + 1 < all.size(); i += group) {
    const NDArray& g = *all[i];
    scaled.push_back(g * (g.dtype() == factor.dtype() ? factor : nd.cast(factor, g.dtype())));
    all[i] = &scaled.back();
  }
  return rule.update(all, options, site);
}

const NDArray& Trainer::scale_state(Device device) {
  if (!scaling_) throw StateError("[Trainer] losses are not scaled: call amp::init_trainer() first");
  NDArray& state = scaling_->state;
  if (!state.defined()) state = nd.array(std::vector<float>{float(scaling_->options.init_scale), 0}, {2});
  if (state.device() != device) state = state.as_in_context(device);
  return state;
}

NDArray Trainer::loss_scale() const {
  if (!scaling_) throw StateError("[Trainer] losses are not scaled: call amp::init_trainer() first");
  if (!scaling_->state.defined()) return nd.full({1}, scaling_->options.init_scale);
  return amp::detail::scale_of(scaling_->state, DType::float32);
}

void Trainer::step(int64_t batch_size, bool ignore_stale_grad, std::source_location site) {
  check_batch_size(batch_size);
  check_scaled(!scaling_ || scaling_->has_scaled);
  throw_failure_of_earlier_step();
  autograd::ModeScope mode(false, false);
  if (ranks_) check_shards();
  const std::span<Slot* const> slots = fresh_slots(ignore_stale_grad);
  if (ranks_) ranks_->share_values();
  const auto is_on_several = [](const Slot* s) { return detail::is_on_several_devices(s->parameter); };
  // a rate that is refused leaves the gradients as they are
  if (overlaps_update()) {
    ranks_->prepare();
    find_groups(slots);
  } else if (ranks_ || std::any_of(slots.begin(), slots.end(), is_on_several)) {
    if (const std::span<Slot* const> own = owned(slots); !own.empty()) rates(own);
  }
  for (const Slot* s : slots) {
    if (!is_on_several(s)) continue;
    const std::vector<NDArray> gradients = gradients_of(s->parameter);
    store_->pushpull(s->parameter.name(), gradients, std::span(gradients).first(1));
  }
  if (ranks_) add_up_over_ranks(false);
  if (overlaps_update()) return update_buckets(slots, batch_size, site);
  update_slots(slots, batch_size, site);
}

void Trainer::allreduce_grads() {
  throw_failure_of_earlier_step();
  if (ranks_) check_shards();
  autograd::ModeScope mode(false, false);
  for (const Slot& s : slots_) {
    const Parameter& p = s.parameter;
    if (p.grad_req() == GradReq::null || !detail::is_on_several_devices(p)) continue;
    const std::vector<NDArray> gradients = gradients_of(p);
    store_->pushpull(p.name(), gradients, gradients);
  }
  if (!ranks_) return;
  ranks_->share_values();
  add_up_over_ranks(true);
  for (const Slot& s : slots_) {
    if (s.parameter.grad_req() == GradReq::null || !s.parameter.is_initialized()) continue;
    const detail::ParameterValues values(s.parameter);
    for (size_t i = 1; i < values.size(); ++i) values.grad(i).assign(values.grad(0));
  }
}

void Trainer::update(int64_t batch_size, bool ignore_stale_grad, std::source_location site) {
  check_batch_size(batch_size);
  check_scaled(!scaling_ || scaling_->has_scaled);
  throw_failure_of_earlier_step();
  autograd::ModeScope mode(false, false);
  update_slots(fresh_slots(ignore_stale_grad), batch_size, site);
}

void Trainer::update_slots(std::span<Slot* const> slots, int64_t batch_size, const std::source_location& site) {
  if (!slots.empty()) {
    const std::span<Slot* const> own = owned(slots);
    std::list<RowUpdate> rows;
    gradients_.clear();
    gradients_.reserve(own.size());
    arrays_.clear();
    for (Slot* s : own) {
      complete_states(*s);
      const Parameter& p = s->parameter;
      if (p.has_row_sparse_grad() && optimizer_.rule().updates_rows()) {
        rows.emplace_back(p.data(), s->states, p.row_sparse_grad());
        for (const NDArray& a : rows.back().arrays) arrays_.push_back(&a);
        continue;
      }
      const detail::ParameterValues values(p);
      gradients_.push_back(p.has_row_sparse_grad() ? p.row_sparse_grad().todense() : values.grad(0));
      arrays_.push_back(&values[0]);
      arrays_.push_back(&gradients_.back());
      for (const NDArray& state : s->states) arrays_.push_back(&state);
    }
    NDArray rates_array;
    if (!own.empty()) {
      rates_array = rates(own);
      arrays_.push_back(&rates_array);
    }
    if (scaling_) arrays_.push_back(&scale_state(detail::ParameterValues(slots[0]->parameter)[0].device()));
    engine::PooledVector<NDArray> all_gradients;
    for (size_t i = 0; own.size() < slots.size() && i < slots.size(); ++i) {
      all_gradients.push_back(detail::ParameterValues(slots[i]->parameter).grad(0));
    }
    if (!arrays_.empty()) push_step([&] { return update_plan(batch_size).apply(arrays_, site, all_gradients); });
    gradients_.clear();
    if (scaling_) scaling_->has_scaled = scaling_->unscaled = false;
    for (const RowUpdate& r : rows) r.put_back();
    if (ranks_ && ranks_->gives_owners()) ranks_->gather_values();
  }
  end_update(slots);
}

void Trainer::end_update(std::span<Slot* const> slots) {
  for (Slot* s : slots) {
    ++s->updates;
    s->keep_stamps();
    const detail::ParameterValues copies(s->parameter);
    for (size_t i = 1; i < copies.size(); ++i) NDArray(copies[i]).assign(copies[0]);
  }
  ++steps_;
}

std::vector<Parameter> Trainer::parameters() const {
  std::vector<Parameter> all;
  for (const Slot& s : slots_) all.push_back(s.parameter);
  return all;
}

}  // namespace kaon::gluon

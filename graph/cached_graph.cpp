#include "kaon/graph/cached_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kaon/graph/autograd.h"
#include "kaon/graph/gradient.h"
#include "kaon/graph/passes/passes.h"

namespace kaon {

CachedGraph::CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options, std::string name)
    : program_(program), input_names_(std::move(input_names)), options_(options), name_(intern(name)) {
  if (options.static_shape && !options.static_alloc) {
    throw ValueError("[hybridize] static_shape requires static_alloc");
  }
  if (options.max_plans < 1) throw ValueError(fmt::format("[hybridize] max_plans must be at least 1, got {}", options.max_plans));
}

bool CachedGraph::matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded) const {
  if (key.training != training || key.wanted.empty() == recorded) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayNode& a = *inputs[i]->ptr();
    if (!(key.inputs[i].shape == a.shape) || key.inputs[i].dtype != a.dtype) return false;
    if (recorded && key.wanted[i] != autograd::wants_gradient(*inputs[i])) return false;
  }
  return true;
}

IntrusivePtr<ExecutionPlan> CachedGraph::find(std::span<const NDArray* const> inputs, bool training, bool recorded) {
  {
    std::lock_guard lock(lock_);
    for (Entry& e : entries_) {
      if (!matches(e.key, inputs, training, recorded)) continue;
      e.used = ++clock_;
      ++stats_.hits;
      return e.plan;
    }
  }
  Key key;
  key.training = training;
  for (const NDArray* a : inputs) {
    key.inputs.push_back({a->shape(), a->dtype()});
    if (recorded) key.wanted.push_back(autograd::wants_gradient(*a));
  }
  IntrusivePtr<ExecutionPlan> plan = build(key);
  std::lock_guard lock(lock_);
  ++stats_.misses;
  last_miss_ = explain(key);
  if (entries_.size() >= size_t(options_.max_plans)) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
    entries_.erase(oldest);
    ++stats_.evictions;
  }
  entries_.push_back({std::move(key), plan, ++clock_});
  return plan;
}

IntrusivePtr<ExecutionPlan> CachedGraph::build(const Key& key) const {
  Graph g = Graph::from_symbol(program_, input_names_);
  infer_graph(g, key.inputs);
  g = passes::drop_dropout(std::move(g), key.training);
  g = passes::common_subexpressions(std::move(g));
  bool recorded = !key.wanted.empty();
  if (recorded) {
    g = with_gradient(std::move(g), key.wanted);
    g = passes::common_subexpressions(std::move(g));
  }
  g = passes::dead_code(std::move(g));
  if (!options_.exact) {
    g = passes::fuse_activation(std::move(g));
    g = passes::channels_last(std::move(g));
  }
  g = passes::own_outputs(std::move(g));
  return IntrusivePtr<ExecutionPlan>(new ExecutionPlan(std::move(g), key.training, options_.exact));
}

std::string CachedGraph::explain(const Key& key) const {
  if (entries_.empty()) return "first call";
  const Key& last = std::max_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; })->key;
  for (size_t i = 0; i < key.inputs.size(); ++i) {
    const TensorMeta &was = last.inputs[i], &is = key.inputs[i];
    if (was.dtype != is.dtype) return fmt::format("{} dtype: {} -> {}", input_names_[i], name_of(was.dtype), name_of(is.dtype));
    if (was.shape.ndim() != is.shape.ndim()) return fmt::format("{} shape: {} -> {}", input_names_[i], was.shape.str(), is.shape.str());
    for (int d = 0; d < is.shape.ndim(); ++d) {
      if (was.shape[d] != is.shape[d]) return fmt::format("{} dim {}: {} -> {}", input_names_[i], d, was.shape[d], is.shape[d]);
    }
  }
  if (last.training != key.training) return fmt::format("training: {} -> {}", last.training, key.training);
  if (last.wanted.empty() != key.wanted.empty()) return fmt::format("recording: {} -> {}", !last.wanted.empty(), !key.wanted.empty());
  return "other gradients are wanted";
}

PlanStats CachedGraph::stats() const {
  std::lock_guard lock(lock_);
  return stats_;
}

std::string CachedGraph::last_miss() const {
  std::lock_guard lock(lock_);
  return last_miss_;
}

IntrusivePtr<ExecutionPlan> CachedGraph::plan() const {
  std::lock_guard lock(lock_);
  if (entries_.empty()) throw StateError("[plan] the block has not been called yet");
  return std::max_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; })->plan;
}

namespace {

// Gradients of a recorded call: the backward half of its plan. Holds the run, whose arena keeps what the forward saved.
class PlanGradFunction final : public GradFunction {
 public:
  PlanGradFunction(IntrusivePtr<ExecutionPlan> plan, PlanRun& run, std::span<const NDArray* const> inputs,
                   std::span<const NDArray> outputs, const OpLabel& label)
      : plan_(std::move(plan)), run_(&run), label_(label) {
    for (const NDArray* a : inputs) inputs_.push_back(*a);
    for (const NDArray& o : outputs) outputs_.push_back(o.detach());
  }
  ~PlanGradFunction() override { release(); }

  void backward(std::span<const NDArray> heads, std::span<const bool> wanted, std::span<NDArray> inputs) override {
    if (thread_context().recording) {
      throw StateError("[backward] gradients of gradients through a hybridized block are not recorded; call hybridize(false) first");
    }
    std::vector<NDArray> filled;
    std::vector<const NDArray*> arrays;
    for (const NDArray& a : inputs_) arrays.push_back(&a);
    filled.reserve(heads.size());
    for (size_t i = 0; i < heads.size(); ++i) {
      filled.push_back(heads[i].defined() ? heads[i] : nd.zeros_like(outputs_[i]));
      arrays.push_back(&filled.back());
    }
    std::vector<NDArray> gradients = plan_->backward(*run_, arrays, outputs_, label_);
    size_t g = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (wanted[i]) inputs[i] = std::move(gradients[g++]);
    }
  }

  void release() override {
    if (!run_) return;
    plan_->end_lease(*run_);
    run_ = nullptr;
    inputs_.clear();
    outputs_.clear();
  }

 private:
  IntrusivePtr<ExecutionPlan> plan_;
  PlanRun* run_;
  OpLabel label_;
  std::vector<NDArray> inputs_, outputs_;
};

}  // namespace

std::vector<NDArray> CachedGraph::call(std::span<const NDArray* const> inputs, const std::source_location& site) {
  bool recorded = false;
  if (autograd::is_recording()) {
    for (const NDArray* a : inputs) recorded = recorded || autograd::wants_gradient(*a);
  }
  for (const NDArray* a : inputs) {
    if (a->device() != inputs[0]->device()) {
      throw DeviceError(fmt::format("[{}] all inputs must be on one device, got {} and {}", name_, inputs[0]->device().str(),
                                    a->device().str()));
    }
  }
  IntrusivePtr<ExecutionPlan> plan = find(inputs, autograd::is_training(), recorded);
  OpLabel label{name_, site, thread_context().scope};
  PlanRun* run = nullptr;
  std::vector<NDArray> outputs = plan->forward(inputs, label, run, recorded);
  if (recorded) {
    autograd::record_call(name_, std::make_unique<PlanGradFunction>(plan, *run, inputs, outputs, label), inputs, outputs);
  }
  return outputs;
}

}  // namespace kaon

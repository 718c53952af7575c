#include "kaon/graph/cached_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "kaon/graph/autograd.h"
#include "kaon/graph/gradient_program.h"
#include "kaon/graph/passes/passes.h"

namespace kaon {

CachedGraph::CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options,
                         std::string name, std::shared_ptr<const Update> update, IntrusivePtr<PlanArenas> arenas)
    : CachedGraph(
          [program, input_names](std::span<const TensorMeta> metas, bool training) {
            Graph g = Graph::from_symbol(program, input_names);
            infer_graph(g, metas);
            number_draws(g, training);
            return g;
          },
          program.entries().size(), input_names, options, std::move(name), std::move(arenas)) {
  program_ = program;
  update_ = std::move(update);
  std::unordered_set<std::string_view> seen;
  for (const std::string& n : input_names_) {
    if (!seen.insert(n).second)
      throw ValueError(fmt::format("[hybridize] {} has two inputs or parameters named '{}'", name_, n));
  }
}

CachedGraph::CachedGraph(Trace trace, size_t num_outputs, std::vector<std::string> input_names,
                         HybridizeOptions options, std::string name, IntrusivePtr<PlanArenas> arenas)
    : trace_(std::move(trace)),
      num_outputs_(num_outputs),
      input_names_(std::move(input_names)),
      options_(options),
      name_(intern(name)),
      arenas_(arenas ? std::move(arenas) : IntrusivePtr<PlanArenas>(new PlanArenas)) {
  if (options.static_shape && !options.static_alloc) {
    throw ValueError("[hybridize] static_shape requires static_alloc");
  }
  if (options.max_plans < 1)
    throw ValueError(fmt::format("[hybridize] max_plans must be at least 1, got {}", options.max_plans));
}

bool CachedGraph::matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded) const {
  if (key.training != training || key.wanted.empty() == recorded) return false;
  if (!inputs.empty() && key.device != inputs[0]->device()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayNode& a = *inputs[i]->ptr();
    if (!(key.inputs[i].shape == a.shape) || key.inputs[i].dtype != a.dtype) return false;
    if (recorded && key.wanted[i] != autograd::wants_gradient(*inputs[i])) return false;
  }
  return true;
}

CachedGraph::Entry* CachedGraph::look_up(std::span<const NDArray* const> inputs, bool training, bool recorded) {
  for (Entry& e : entries_) {
    if (!matches(e.key, inputs, training, recorded)) continue;
    e.used = ++clock_;
    return &e;
  }
  return nullptr;
}

IntrusivePtr<ExecutionPlan> CachedGraph::find(std::span<const NDArray* const> inputs, bool training, bool recorded) {
  {
    std::lock_guard lock(lock_);
    if (Entry* e = look_up(inputs, training, recorded)) {
      ++stats_.hits;
      return e->plan;
    }
  }
  Key key;
  key.training = training;
  if (!inputs.empty()) key.device = inputs[0]->device();
  for (const NDArray* a : inputs) {
    key.inputs.push_back({a->shape(), a->dtype()});
    if (recorded) key.wanted.push_back(autograd::wants_gradient(*a));
  }
  IntrusivePtr<ExecutionPlan> plan = build(key);
  std::lock_guard lock(lock_);
  ++stats_.misses;
  if (Entry* e = look_up(inputs, training, recorded)) return e->plan;  // another thread was faster
  last_miss_ = explain(key);
  if (entries_.size() >= size_t(options_.max_plans)) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                   [](const Entry& a, const Entry& b) { return a.used < b.used; });
    entries_.erase(oldest);
    ++stats_.evictions;
  }
  entries_.push_back({std::move(key), plan, ++clock_});
  return plan;
}

IntrusivePtr<ExecutionPlan> CachedGraph::build(const Key& key) const {
  auto trace = [trace = trace_, metas = key.inputs, training = key.training] { return trace(metas, training); };
  passes::Options passes{.training = key.training,
                         .exact = options_.exact,
                         .wanted = update_ ? update_->wanted : key.wanted,
                         .update = update_};
  PlanOptions options{.training = key.training,
                      .exact = options_.exact,
                      .arenas = arenas_,
                      .keep_arenas = options_.static_alloc};
  Graph graph;
  try {
    graph = passes::run(trace(), passes);
  } catch (const StateError& e) {  // no gradient: said when one is asked for
    if (key.wanted.empty() || update_) throw;
    options.refusal = e.what();
    passes.wanted.clear();
    graph = passes::run(trace(), passes);
  }
  if (!passes.wanted.empty() && !update_) {
    options.gradients =
        std::make_shared<GradientProgram>(trace, key.wanted, key.training, input_names_, options_, name_, arenas_, num_outputs_);
  }
  options.history = [trace, passes] { return passes::explain(trace(), passes); };
  return IntrusivePtr<ExecutionPlan>(new ExecutionPlan(std::move(graph), options));
}

std::string CachedGraph::explain(const Key& key) const {
  if (entries_.empty()) return "first call";
  const Key& last = std::max_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
                      return a.used < b.used;
                    })->key;
  for (size_t i = 0; i < key.inputs.size(); ++i) {
    const TensorMeta &was = last.inputs[i], &is = key.inputs[i];
    if (was.dtype != is.dtype)
      return fmt::format("{} dtype: {} -> {}", input_names_[i], name_of(was.dtype), name_of(is.dtype));
    if (was.shape.ndim() != is.shape.ndim())
      return fmt::format("{} shape: {} -> {}", input_names_[i], was.shape.str(), is.shape.str());
    for (int d = 0; d < is.shape.ndim(); ++d) {
      if (was.shape[d] != is.shape[d])
        return fmt::format("{} dim {}: {} -> {}", input_names_[i], d, was.shape[d], is.shape[d]);
    }
  }
  if (last.device != key.device) return fmt::format("device: {} -> {}", last.device.str(), key.device.str());
  if (last.training != key.training) return fmt::format("training: {} -> {}", last.training, key.training);
  if (last.wanted.empty() != key.wanted.empty())
    return fmt::format("recording: {} -> {}", !last.wanted.empty(), !key.wanted.empty());
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
  return std::max_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.used < b.used; })
      ->plan;
}

namespace {

// Gradients of a recorded call: the backward half of its plan, or, where they are recorded themselves, a call of its
// gradients' program. Holds the run, whose arena keeps what the forward saved, and the arrays.
class PlanGradFunction final : public GradFunction {
 public:
  PlanGradFunction(IntrusivePtr<ExecutionPlan> plan, PlanRun& run, std::span<const NDArray* const> inputs,
                   std::span<const NDArray> outputs, std::vector<bool> wanted, const OpLabel& label)
      : plan_(std::move(plan)),
        run_(&run),
        label_(label),
        wanted_(std::move(wanted)),
        inputs_(inputs.size()),
        outputs_(outputs.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i] = *inputs[i];
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs_[i] = outputs[i].detach();  // the array itself would keep this alive
    }
  }
  ~PlanGradFunction() override { release(); }

  bool writes_in_place() const override { return true; }

  void backward(const GradCall& call) override {
    const PlanOptions& options = plan_->options();
    if (!options.refusal.empty()) throw StateError(options.refusal);
    const bool is_recorded = thread_context().recording;
    std::vector<NDArray> heads(call.heads.begin(), call.heads.end());
    std::vector<const NDArray*> arrays;
    for (const NDArray& a : inputs_) arrays.push_back(&a);
    for (size_t i = 0; i < heads.size(); ++i) {
      if (!heads[i].defined() && (is_recorded || plan_->backward_reads_input(arrays.size())))
        heads[i] = autograd::filled_like(outputs_[i], 0);
      arrays.push_back(heads[i].defined() ? &heads[i] : &outputs_[i]);
    }
    // What the plan computes was settled by the forward.
    std::vector<NDArray> results;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i]) results.push_back(is_free(call.gradients[i], arrays) ? call.gradients[i] : NDArray());
    }
    if (is_recorded) {
      options.gradients->graph().call(arrays, results, label_.site, &run_->key);
    } else {
      plan_->backward(*run_, arrays, outputs_, results, label_, call.retain);
    }
    size_t next = 0;
    for (size_t i = 0; i < wanted_.size(); ++i) call.gradients[i] = wanted_[i] ? std::move(results[next++]) : NDArray();
  }

  void release() override {
    if (!run_) return;
    plan_->end_lease(*run_);
    run_ = nullptr;
    inputs_.clear();
    outputs_.clear();
  }

 private:
  // May the plan write here while it reads `arrays`?
  static bool is_free(const NDArray& target, std::span<const NDArray* const> arrays) {
    if (!target.defined()) return false;
    return std::none_of(arrays.begin(), arrays.end(),
                        [&](const NDArray* a) { return a->defined() && a->ptr()->chunk == target.ptr()->chunk; });
  }

  IntrusivePtr<ExecutionPlan> plan_;
  PlanRun* run_;
  OpLabel label_;
  std::vector<bool> wanted_;  // by input, when the plan was made
  std::vector<NDArray> inputs_, outputs_;
};

}  // namespace

void CachedGraph::call(std::span<const NDArray* const> inputs, std::span<NDArray> outputs,
                       const std::source_location& site, const RandomKey* numbers) {
  if (inputs.size() != input_names_.size()) {
    throw ValueError(fmt::format("[{}] takes {} inputs, got {}", name_, input_names_.size(), inputs.size()));
  }
  if (update_ && autograd::is_recording()) {
    throw StateError(fmt::format("[{}] a training step takes its gradients itself: call it outside of record()", name_));
  }
  bool recorded = false;
  if (autograd::is_recording()) {
    for (const NDArray* a : inputs) recorded = recorded || autograd::wants_gradient(*a);
  }
  for (const NDArray* a : inputs) {
    if (a->device() != inputs[0]->device()) {
      throw DeviceError(fmt::format("[{}] all inputs must be on one device, got {} and {}", name_,
                                    inputs[0]->device().str(), a->device().str()));
    }
    if (&a->engine() != &inputs[0]->engine())
      throw DeviceError(fmt::format("[{}] inputs belong to different engines", name_));
  }
  EngineScope scope(inputs.empty() ? Engine::current() : inputs[0]->engine());
  IntrusivePtr<ExecutionPlan> plan = find(inputs, update_ || autograd::is_training(), recorded);
  OpLabel label{name_, site, thread_context().scope};
  for (NDArray& o : outputs) o = NDArray();
  PlanRun& run = plan->forward(inputs, outputs, label, recorded, numbers);
  if (!recorded) return;
  std::vector<bool> wanted;
  for (const NDArray* a : inputs) wanted.push_back(autograd::wants_gradient(*a));
  autograd::record_call(name_, std::make_unique<PlanGradFunction>(plan, run, inputs, outputs, std::move(wanted), label),
                        inputs, outputs);
}

std::vector<NDArray> CachedGraph::call(std::span<const NDArray* const> inputs, const std::source_location& site) {
  std::vector<NDArray> outputs(num_outputs());
  call(inputs, outputs, site);
  return outputs;
}

}  // namespace kaon

#include "kaon/graph/hybrid/cached_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/gradient_program.h"
#include "kaon/graph/hybrid/plan_gradient.h"
#include "kaon/graph/hybrid/trace_check.h"
#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/ir/history.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/ir/tape.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan/batch_padding.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/operator/checked_kernel.h"

namespace kaon::graph {
namespace {

Shape with_rows(Shape shape, int64_t rows) {
  if (shape.ndim() > 0) shape[0] = rows;
  return shape;
}

// Whether the gradient attached to the array is row_sparse.
bool keeps_rows(const NDArray& array) {
  const autograd::History* h = autograd::history_of(array);
  return h && h->takes_rows();
}

// How many calls of each plan KAON_VERIFY asks to verify, so that whole programs and test suites can be run that way.
int verify_by_environment() {
  const char* text = std::getenv("KAON_VERIFY");
  if (!text) return 0;
  char* end;
  const long calls = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || calls < 0 || calls > INT_MAX) {
    throw ValueError(fmt::format("[hybridize] KAON_VERIFY is a number of calls, got '{}'", text));
  }
  return int(calls);
}

}  // namespace

std::string describe_change(std::span<const std::string> names, std::span<const TensorMeta> old,
                            std::span<const TensorMeta> now) {
  for (size_t i = 0; i < now.size(); ++i) {
    const TensorMeta &was = old[i], &is = now[i];
    if (was.dtype != is.dtype)
      return fmt::format("{} dtype: {} -> {}", names[i], name_of(was.dtype), name_of(is.dtype));
    if (was.shape.ndim() != is.shape.ndim())
      return fmt::format("{} shape: {} -> {}", names[i], was.shape.str(), is.shape.str());
    for (int d = 0; d < is.shape.ndim(); ++d) {
      if (was.shape[d] != is.shape[d])
        return fmt::format("{} dim {}: {} -> {}", names[i], d, was.shape[d], is.shape[d]);
    }
  }
  return "";
}

CachedGraph::CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options,
                         std::string name, std::shared_ptr<const Update> update, IntrusivePtr<PlanArenas> arenas,
                         size_t num_data)
    : CachedGraph(
          [program, input_names](std::span<const TensorMeta> metas, bool training) {
            Graph g = Graph::from_symbol(program, input_names);
            infer_graph(g, metas);
            number_draws(g, training);
            return g;
          },
          program.entries().size() + (update ? update->returned.size() : 0), input_names, options, std::move(name),
          std::move(arenas)) {
  program_ = program;
  update_ = std::move(update);
  num_data_ = std::min(num_data, input_names_.size());
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
  options.check();
}

bool CachedGraph::matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded,
                          int64_t bucket) const {
  if (key.training != training || key.wanted.empty() == recorded || key.checking != is_checking()) return false;
  if (!inputs.empty() && key.device != inputs[0]->device()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayNode& a = *inputs[i]->ptr();
    if (key.inputs[i].dtype != a.dtype) return false;
    if (bucket < 0 || i >= num_data_) {
      if (!(key.inputs[i].shape == a.shape)) return false;
    } else if (!(key.inputs[i].shape == with_rows(a.shape, bucket))) {
      return false;
    }
    if (!recorded) continue;
    if (key.wanted[i] != autograd::wants_gradient(*inputs[i])) return false;
    if ((!key.rows.empty() && key.rows[i]) != keeps_rows(*inputs[i])) return false;
  }
  return !recorded || num_outputs_ == 1 || *expected_heads_ == key.heads;
}

CachedGraph::Entry* CachedGraph::look_up(std::span<const NDArray* const> inputs, bool training, bool recorded,
                                         int64_t bucket) {
  for (Entry& e : entries_) {
    if (!matches(e.key, inputs, training, recorded, bucket)) continue;
    e.used = ++clock_;
    return &e;
  }
  return nullptr;
}

void CachedGraph::forget_parameters() {
  std::vector<IntrusivePtr<ExecutionPlan>> plans;
  {
    std::lock_guard lock(lock_);
    for (const Entry& e : entries_) plans.push_back(e.plan);
  }
  for (const auto& plan : plans) plan->forget_parameters();
}

IntrusivePtr<ExecutionPlan> CachedGraph::find(std::span<const NDArray* const> inputs, bool training, bool recorded) {
  int64_t bucket = -1;  // rows that the plan is for; -1: those of the data
  if (is_bucketed(training, recorded)) {
    bucket = bucket_of(rows_of(inputs.first(num_data_), name_), options_.buckets, name_);
  }
  {
    std::lock_guard lock(lock_);
    if (Entry* e = look_up(inputs, training, recorded, bucket)) {
      ++stats_.hits;
      return e->plan;
    }
  }
  Key key;
  key.training = training;
  key.checking = is_checking();
  if (!inputs.empty()) key.device = inputs[0]->device();
  for (const NDArray* a : inputs) {
    key.inputs.push_back({a->shape(), a->dtype()});
    if (!recorded) continue;
    key.wanted.push_back(autograd::wants_gradient(*a));
    key.rows.push_back(keeps_rows(*a));
  }
  if (std::find(key.rows.begin(), key.rows.end(), true) == key.rows.end()) key.rows.clear();
  if (recorded) key.heads = expected_heads_->get();
  for (size_t i = 0; i < num_data_ && bucket >= 0; ++i) key.inputs[i].shape[0] = bucket;
  {
    std::lock_guard lock(lock_);
    refuse_new_shapes(key);
  }
  IntrusivePtr<ExecutionPlan> plan = build(key);
  IntrusivePtr<ExecutionPlan> evicted;  // destroyed when the lock is free: that may run operations
  std::unique_lock lock(lock_);
  ++stats_.misses;
  if (Entry* e = look_up(inputs, training, recorded, bucket)) return e->plan;  // another thread was faster
  refuse_new_shapes(key);
  const std::string why = last_miss_ = explain(key);
  if (entries_.size() >= size_t(options_.max_plans)) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                   [](const Entry& a, const Entry& b) { return a.used < b.used; });
    evicted = std::move(oldest->plan);
    entries_.erase(oldest);
    ++stats_.evictions;
  }
  entries_.push_back({std::move(key), plan, ++clock_});
  lock.unlock();
  evicted = nullptr;
  forget_parameters();  // after a cast nobody may want the old ones any more
  if (options_.on_miss) options_.on_miss(fmt::format("[{}] new plan: {}", name_, why));
  return plan;
}

void CachedGraph::refuse_new_shapes(const Key& key) const {
  if (options_.policy != PlanPolicy::error) return;
  const Entry* latest = nullptr;  // of those that differ in nothing else
  for (const Entry& e : entries_) {
    if (e.key.device != key.device || e.key.training != key.training || e.key.wanted != key.wanted ||
        e.key.rows != key.rows || e.key.heads != key.heads)
      continue;
    if (describe_change(input_names_, e.key.inputs, key.inputs).empty()) return;  // another thread was faster
    if (!latest || e.used > latest->used) latest = &e;
  }
  if (!latest) return;
  throw StateError(fmt::format("[{}] policy error: nothing is planned for {}; plans: {}", name_,
                               describe_change(input_names_, latest->key.inputs, key.inputs), entries_.size()));
}

IntrusivePtr<ExecutionPlan> CachedGraph::build(const Key& key) const {
  if (options_.verify > 0 && key.device.type != DeviceType::cpu) {
    throw ValueError(fmt::format("[{}] verify compares runs on the CPU, not on {}", name_, key.device.str()));
  }
  const bool padded = is_bucketed(key.training, !key.wanted.empty());
  std::vector<bool> has_rows;
  if (padded) {
    has_rows = prove_rows_independent(program_, input_names_, key.inputs, num_data_, key.inputs[0].shape[0], name_);
  }
  auto trace = [trace = trace_, metas = key.inputs, training = key.training] { return trace(metas, training); };
  passes::Options passes{.device = key.device,
                         .training = key.training,
                         .exact = options_.exact,
                         .winograd = options_.winograd,
                         .autotune = options_.autotune,
                         .mirror = options_.mirror,
                         .is_gradient = !program_.defined(),
                         .wanted = update_ ? update_->wanted : key.wanted,
                         .heads = key.heads,
                         .update = update_,
                         .rows = key.rows};
  PlanOptions options{.device = key.device,
                      .training = key.training,
                      .exact = options_.exact,
                      .winograd = options_.winograd,
                      .arenas = arenas_,
                      .keep_arenas = options_.static_alloc,
                      .parallel_regions = options_.branches && !options_.mirror,  // which cost memory
                      .padded = padded,
                      .heads = key.heads};
  Graph graph = trace();
  // A gradient that is zero because none arrives is recorded imperatively too: all gradients are.
  if (!key.wanted.empty() && program_.defined()) options.recorded = recorded_outputs(graph, key.wanted);
  if (!key.wanted.empty()) options.own = own_gradients(graph, key.wanted);
  if (!key.wanted.empty() && !program_.defined()) options.copied = inputs_updated_in_copies(graph, key.training);
  try {
    graph = passes::run(std::move(graph), passes);
  } catch (const StateError&) {  // an output without a gradient: said when it is asked for
    if (key.wanted.empty() || update_) throw;
    options.refusals = refused_gradients(trace(), key.wanted);
    for (const std::string& why : options.refusals) passes.refused.push_back(!why.empty());
    graph = passes::run(trace(), passes);
  }
  if (!key.wanted.empty() && !update_) {
    const GradientForm form{.heads = arrivals(key.heads), .refused = passes.refused, .rows = key.rows};
    GradientForm given = gradient_form(trace(), key.wanted, form);
    options.arrives = std::move(given.arrives);
    options.gradients =
        std::make_shared<GradientProgram>(trace, key.wanted, key.training, input_names_, options_, name_, arenas_,
                                          num_outputs_, passes.refused, std::move(given.rows));
  }
  if (padded) graph = pad_rows(std::move(graph), num_data_, has_rows);
  options.history = [trace, passes, padded, has_rows, num_data = num_data_] {
    std::string text = passes::explain(trace(), passes);
    if (!padded) return text;
    return text + "--- pad_rows\n" + pad_rows(passes::run(trace(), passes), num_data, has_rows).str();
  };
  if (program_.defined()) options.num_data = num_data_;
  if (update_) options.groups = update_->groups, options.read_groups = update_->read_groups;
  options.verify = options_.verify;
  const bool may_verify = program_.defined() && key.device.type == DeviceType::cpu && !options_.winograd &&
                          options_.policy != PlanPolicy::bucket;
  if (options.verify == 0 && may_verify) options.verify = key.checking ? INT_MAX : verify_by_environment();
  if (options.verify > 0) options.program = std::make_shared<const Graph>(passes::program(trace(), passes));
  return IntrusivePtr<ExecutionPlan>(new ExecutionPlan(std::move(graph), options));
}

std::string CachedGraph::explain(const Key& key) const {
  if (entries_.empty()) return "first call";
  const Key& last = std::max_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
                      return a.used < b.used;
                    })->key;
  if (std::string change = describe_change(input_names_, last.inputs, key.inputs); !change.empty()) return change;
  if (last.device != key.device) return fmt::format("device: {} -> {}", last.device.str(), key.device.str());
  if (last.checking != key.checking) return key.checking ? "checks began" : "checks ended";
  if (last.training != key.training) return fmt::format("training: {} -> {}", last.training, key.training);
  if (last.wanted.empty() != key.wanted.empty())
    return fmt::format("recording: {} -> {}", !last.wanted.empty(), !key.wanted.empty());
  if (last.wanted != key.wanted || last.rows != key.rows) return "other gradients are wanted";
  return "gradients arrive at other outputs";
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

void CachedGraph::call(std::span<const NDArray* const> inputs, std::span<NDArray> outputs,
                       const std::source_location& site, std::optional<FunctionRef<Symbol()>> retrace,
                       const RandomKey* numbers) {
  for (NDArray& o : outputs) o = NDArray();
  submit(inputs, outputs, site, retrace, numbers);
}

void CachedGraph::submit(std::span<const NDArray* const> inputs, std::span<NDArray> outputs,
                         const std::source_location& site, std::optional<FunctionRef<Symbol()>> retrace,
                         const RandomKey* numbers) {
  if (inputs.size() != input_names_.size()) {
    throw ValueError(fmt::format("[{}] takes {} inputs, got {}", name_, input_names_.size(), inputs.size()));
  }
  if (update_ && autograd::is_recording()) {
    throw StateError(
        fmt::format("[{}] a training step takes its gradients itself: call it outside of record()", name_));
  }
  bool recorded = false;
  if (autograd::is_recording()) {
    for (const NDArray* a : inputs) recorded = recorded || autograd::wants_gradient(*a);
  }
  Engine& engine = inputs.empty() ? Engine::current() : inputs[0]->engine();
  const Device device = inputs.empty() ? Device() : inputs[0]->device();
  for (const NDArray* a : inputs) {
    if (a->device() != device) {
      throw DeviceError(
          fmt::format("[{}] all inputs must be on one device, got {} and {}", name_, device.str(), a->device().str()));
    }
    check_same_engine(*inputs[0]->node().buffer, *a->node().buffer, name_);
  }
  engine.check_not_gone(name_);
  EngineScope scope(engine);
  IntrusivePtr<ExecutionPlan> plan = find(inputs, update_ || autograd::is_training(), recorded);
  OpLabel label{name_, site, thread_context().block_path};
  if (retrace && plan->is_verifying()) check_trace(program_, (*retrace)(), name_);
  PlanRun& run = plan->forward(inputs, outputs, label, recorded, plan->next_shadow(), numbers);
  if (!recorded) return;
  std::vector<bool> wanted;
  for (const NDArray* a : inputs) wanted.push_back(autograd::wants_gradient(*a));
  autograd::record_call(name_, plan_gradient(plan, run, inputs, outputs, std::move(wanted), expected_heads_, label),
                        inputs, outputs);
  const std::vector<bool>& is_recorded = plan->options().recorded;
  for (size_t i = 0; i < is_recorded.size(); ++i) {
    if (!is_recorded[i]) outputs[i].node().annotation = nullptr;
  }
}

std::vector<NDArray> CachedGraph::call(std::span<const NDArray* const> inputs, const std::source_location& site) {
  std::vector<NDArray> outputs(num_outputs());
  call(inputs, outputs, site);
  return outputs;
}

}  // namespace kaon::graph

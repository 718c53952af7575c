// Calling a hybrid block: tracing it, finding the trace that fits, submitting it.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon::gluon::detail {

using namespace graph;
namespace {

thread_local BlockNode* t_running_block = nullptr;
thread_local CallOrder* t_call_order = nullptr;
thread_local uint64_t t_trace = 0;
thread_local TraceUse t_use;
thread_local Traced* t_traced = nullptr;

}  // namespace

uint64_t running_trace() { return t_trace; }

CallOrder::CallOrder() : outer_(std::exchange(t_call_order, this)) {}
CallOrder::~CallOrder() { t_call_order = outer_; }

Device device_of(std::span<const NDArray* const> inputs) {
  if (inputs.empty()) return current_device();
  const auto& buffer = inputs[0]->node().buffer;
  return buffer ? buffer->device : current_device();
}

bool is_active(const BlockNode& block) {
  if (!block.active || block.runs_itself || !block.op_hooks.empty() || OpHookScope::is_open()) return false;
  // where nothing is run, only shapes are asked for
  const Interceptor* i = Interceptor::current();
  return !i || !i->instead_of_running;
}

namespace {

bool is_inside(const BlockNode& tree, const BlockNode& block) {
  for (const auto& c : tree.children) {
    if (c.node.get() == &block) return true;
  }
  return std::any_of(tree.children.begin(), tree.children.end(),
                     [&](const auto& c) { return is_inside(*c.node, block); });
}

// A block may call only blocks of its own tree (a Sequential may serve as a list of layers): others would have no path
// and be missing in files.
void check_own(const BlockNode& block) {
  const BlockNode* caller = t_running_block;
  const BlockNode& whole = block.part_of ? *block.part_of : block;
  if (!caller || caller == &whole || is_inside(*caller, whole)) return;
  throw StateError(
      fmt::format("[Block] {} calls {} ({}), which is not one of its registered children: make it a member with "
                  "child(\"name\", ...)",
                  caller->path, block.path, block.hint));
}

bool contains(const BlockNode& tree, const Parameter& parameter) {
  return std::ranges::any_of(tree.parameters, [&](const auto& own) { return own.parameter == parameter; }) ||
         std::ranges::any_of(tree.children, [&](const auto& c) { return contains(*c.node, parameter); });
}

void check_no_hooks(const BlockNode& block) {
  if (!t_use.is_plan || (block.op_hooks.empty() && (t_use.of == &block || block.hooks.empty()))) return;
  throw StateError(fmt::format(
      "[Block] {} ({}) has hooks, which a plan does not call: hybridize(false) the net around it, or detach "
      "them",
      block.path, block.hint));
}

}  // namespace

// As check_own: another's parameter would be missing in files, and the one that it stands for would get no gradient.
void check_contained(const Parameter& parameter) {
  const BlockNode* block = t_running_block;
  if (!block || contains(*block, parameter)) return;
  throw StateError(fmt::format(
      "[Block] {} uses {}, which is not one of its parameters: a member that was assigned to does not share "
      "it; call share_parameters(), or register it with share_param()",
      block->path, parameter.name()));
}

void rethrow_with_call(const BlockNode& block, const std::source_location& site) {
  if (t_running_block) throw;
  std::rethrow_exception(
      add_context(std::current_exception(), fmt::format("; {} called at {}", block.path, describe(site))));
}

CallScope::CallScope(BlockNode& block, bool tracing)
    : saved_path_(thread_context().block_path),
      saved_tracing_(thread_context().tracing),
      saved_block_(t_running_block) {
  check_own(block);
  if (tracing) check_no_hooks(block);
  if (tracing && t_traced && !t_running_block) t_traced->called.emplace_back(block.weak_from_this(), block.changes);
  t_running_block = &block;
  thread_context().block_path = block.path;
  thread_context().tracing = tracing;
  if (tracing) names_.emplace(block.prefix);
  if (!tracing && !block.op_hooks.empty()) op_hooks_ = std::make_unique<OpHookScope>(block);
}

CallScope::~CallScope() {
  if (names_ && t_call_order) {
    std::vector<const BlockNode*>& ended = t_call_order->ended;
    if (std::find(ended.begin(), ended.end(), t_running_block) == ended.end()) ended.push_back(t_running_block);
  }
  thread_context().block_path = saved_path_;
  thread_context().tracing = saved_tracing_;
  t_running_block = saved_block_;
}

namespace {
// Reentrant: hybrid_forward may run another net. A fork waits for the trace.
struct TraceMutex : Reentrant<TraceMutex> {
  uint64_t traces = 0;  // so far
};
TraceMutex& trace_mutex() { return ProcessWide<TraceMutex, ForkOrder::traces>::get(); }
}  // namespace

bool Traced::is_outdated() const {
  return std::ranges::any_of(called, [](const auto& c) {
    const std::shared_ptr<const BlockNode> block = c.first.lock();
    return !block || block->changes != c.second;
  });
}

bool traces_a_plan() { return t_trace != 0 && t_use.is_plan; }

Traced run_trace(std::span<const NDArray* const> inputs, TraceFn trace, const TraceUse& use) {
  std::lock_guard one(trace_mutex());  // it completes parameters, which nets may share
  const TraceUse outer_use = std::exchange(t_use, use);
  const uint64_t outer = std::exchange(t_trace, ++trace_mutex().traces);
  SymbolShapeWatch watch;
  Traced result;
  std::vector<Symbol> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = inputs.size() == 1 ? "data" : fmt::format("data{}", i);
    data.push_back(Symbol::variable(name, inputs[i]->shape(), inputs[i]->dtype()));
    result.input_names.push_back(name);
  }
  ThreadContext saved = thread_context();
  thread_context().interceptor = nullptr;  // a trace computes nothing that could be recorded
  thread_context().recording = false;
  BlockNode* running = std::exchange(t_running_block, nullptr);
  Traced* const outer_traced = std::exchange(t_traced, &result);
  ParameterTrace used;
  auto restore = [&] {
    thread_context() = saved;
    t_running_block = running;
    t_traced = outer_traced;
    t_trace = outer;
    t_use = outer_use;
  };
  try {
    FlatSymbols results = trace(data);
    result.program = Symbol::group(results.arrays);
    result.lengths = std::move(results.lengths);
  } catch (...) {
    restore();
    for (Parameter p : used.used) p.forget_variable();  // the failed trace may have given it a wrong shape
    throw;
  }
  restore();
  result.parameters = std::move(used.used);
  for (Parameter p : result.parameters) {
    const Shape& s = p.var().entry().node->outputs[0].shape;
    if (s.is_known()) p.set_shape(s);
    p.finish_deferred();
  }
  result.read_shapes = watch.was_read();
  return result;
}

namespace {

bool has_form(const BlockNode::Trace& t, const CallInputs& inputs, bool training) {
  return t.num_inputs == inputs.arrays.size() && t.training == training && std::ranges::equal(t.form, inputs.form);
}

bool fits(const BlockNode::Trace& t, const CallInputs& inputs, bool training) {
  if (!has_form(t, inputs, training)) return false;
  for (size_t i = 0; i < t.metas.size(); ++i) {
    const NDArray& a = *inputs.arrays[i];
    if (!(t.metas[i].shape == a.shape()) || t.metas[i].dtype != a.dtype()) return false;
  }
  return true;
}

// A trace that read a shape holds for that shape alone.
void check_policy(BlockNode& block, const CallInputs& inputs, std::span<const std::string> names, bool training) {
  if (block.options.policy == PlanPolicy::bucket && !training) {
    throw ShapeError(fmt::format(
        "[{}] policy bucket needs a trace that holds for any number of rows, but hybrid_forward reads a shape "
        "or dtype; use the codes 0 and -1 of reshape, or PlanPolicy::retrace",
        block.path));
  }
  std::string change;
  size_t traces = 0;
  {
    std::lock_guard guard(block.lock);
    for (const BlockNode::Trace& t : block.traces) {
      if (!has_form(t, inputs, training)) continue;
      std::vector<TensorMeta> now;
      for (const NDArray* a : inputs.arrays) now.push_back({a->shape(), a->dtype()});
      change = describe_change(names, t.metas, now);
      ++traces;
    }
  }
  if (traces == 0) return;
  if (block.options.policy == PlanPolicy::error) {
    throw StateError(
        fmt::format("[{}] policy error: nothing is planned for {}; plans: {}", block.path, change, traces));
  }
  if (block.options.on_miss) block.options.on_miss(fmt::format("[{}] traced again: {}", block.path, change));
}

BlockNode::Trace make_trace(BlockNode& block, const CallInputs& inputs, TraceFn trace, bool training) {
  Traced traced = run_trace(inputs.arrays, trace, {.is_plan = true, .of = &block});
  if (traced.read_shapes) check_policy(block, inputs, traced.input_names, training);
  std::vector<std::string> names = traced.input_names;
  for (const Parameter& p : traced.parameters) names.push_back(p.name());
  BlockNode::Trace made{.num_inputs = inputs.arrays.size(),
                        .form = {inputs.form.begin(), inputs.form.end()},
                        .training = training,
                        .metas = {},
                        .graph = {},
                        .lengths = {},
                        .parameters = traced.parameters,
                        .used = 0};
  if (!traced.lengths.empty()) made.lengths = std::make_shared<const std::vector<size_t>>(std::move(traced.lengths));
  if (traced.read_shapes) {
    for (const NDArray* a : inputs.arrays) made.metas.push_back({a->shape(), a->dtype()});
  }
  IntrusivePtr<PlanArenas> arenas;
  {
    std::lock_guard guard(block.lock);
    arenas = block.arenas;
  }
  made.graph = std::make_shared<CachedGraph>(traced.program, names, block.options, block.path, nullptr,
                                             std::move(arenas), inputs.arrays.size());
  return made;
}

// Traces that hold for their shapes alone are as many as plans at most: the one used longest ago leaves, and is
// returned so that it can go when the lock is free.
std::optional<BlockNode::Trace> keep(BlockNode& block, BlockNode::Trace made) {
  std::optional<BlockNode::Trace> leaving;
  auto& traces = block.traces;
  auto of_shapes = [](const BlockNode::Trace& t) { return !t.metas.empty(); };
  if (of_shapes(made) && std::count_if(traces.begin(), traces.end(), of_shapes) >= block.options.max_plans) {
    auto oldest = std::find_if(traces.begin(), traces.end(), of_shapes);
    for (auto t = oldest; t != traces.end(); ++t) {
      if (of_shapes(*t) && t->used < oldest->used) oldest = t;
    }
    leaving = std::move(*oldest);
    traces.erase(oldest);
  }
  traces.push_back(std::move(made));
  return leaving;
}

}  // namespace

void finish_deferred(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace) {
  auto any = [&] {
    return std::any_of(block.parameters.begin(), block.parameters.end(),
                       [](const auto& p) { return p.parameter.is_deferred(); });
  };
  if (!any()) return;
  std::lock_guard one(trace_mutex());
  if (any()) run_trace(inputs, trace, {});
}

void call_traced(BlockNode& block, const CallInputs& inputs, TraceFn trace, const std::source_location& site,
                 RoomFn room) {
  check_own(block);
  bool training = thread_context().training;
  std::shared_ptr<CachedGraph> graph;
  std::shared_ptr<const std::vector<size_t>> lengths;
  constexpr size_t few = 40;
  const NDArray* some[few];
  std::vector<const NDArray*, PoolAllocator<const NDArray*>> many;
  const NDArray** all = some;  // inputs and parameters
  size_t total = 0;
  auto take_existing = [&] {
    std::lock_guard guard(block.lock);
    for (BlockNode::Trace& t : block.traces) {
      if (!fits(t, inputs, training)) continue;
      t.used = ++block.clock;
      graph = t.graph;
      lengths = t.lengths;
      total = inputs.arrays.size() + t.parameters.size();
      if (total > few) {
        many.resize(total);
        all = many.data();
      }
      const NDArray** next = std::copy(inputs.arrays.begin(), inputs.arrays.end(), all);
      for (const Parameter& p : t.parameters) *next++ = &p.array();
      return true;
    }
    return false;
  };
  if (!take_existing()) {
    std::lock_guard one(trace_mutex());
    if (!take_existing()) {  // another thread may have been faster
      BlockNode::Trace made = make_trace(block, inputs, trace, training);
      std::optional<BlockNode::Trace> leaving;
      std::vector<std::shared_ptr<CachedGraph>> others;
      {
        std::lock_guard guard(block.lock);
        for (const BlockNode::Trace& t : block.traces) others.push_back(t.graph);
        leaving = keep(block, std::move(made));
      }
      for (const auto& other : others) other->forget_parameters();
      take_existing();
    }
  }
  // Verification traces again instead of running hybrid_forward on arrays, which would draw numbers and update
  // statistics: the plan's imperative run computes the program. Two traces name the operator that differs, whatever its
  // value. Code of hybrid_forward for arrays only (by their C++ type) is not checked.
  auto retrace = [&] { return run_trace(inputs.arrays, trace, {.is_plan = true, .of = &block}).program; };
  const std::span<NDArray> outputs =
      room(graph->num_outputs(), lengths ? std::span(*lengths) : std::span<const size_t>());
  graph->call({all, total}, outputs, site, retrace);
}

}  // namespace kaon::gluon::detail

namespace kaon::gluon {

engine::IntrusivePtr<PlanReport> Block::plan() const {
  std::shared_ptr<graph::CachedGraph> latest;
  {
    std::lock_guard guard(node_->lock);
    uint64_t used = 0;
    for (const BlockNode::Trace& t : node_->traces) {
      if (t.used > used) used = t.used, latest = t.graph;
    }
  }
  if (!latest) throw StateError(fmt::format("[plan] {} has not been called yet, hybridized", name()));
  return latest->report();
}

PlanStats Block::plan_stats() const {
  PlanStats sum;
  std::lock_guard guard(node_->lock);
  for (const BlockNode::Trace& t : node_->traces) {
    const PlanStats s = t.graph->stats();
    sum.hits += s.hits;
    sum.misses += s.misses;
    sum.evictions += s.evictions;
  }
  return sum;
}

}  // namespace kaon::gluon

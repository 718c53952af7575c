#include "kaon/graph/control_flow/nested_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {

void NestedContext::begin(RunContext& outer) {
  outer_ = &outer;
  blocks_.clear();
}

void* NestedContext::workspace(size_t bytes) {
  for (Block& b : blocks_) {
    if (b.is_taken || b.bytes < bytes) continue;
    b.is_taken = true;
    return b.data;
  }
  blocks_.push_back({outer_->workspace(bytes), bytes, true});
  return blocks_.back().data;
}

void NestedContext::free_workspace() noexcept {
  for (Block& b : blocks_) b.is_taken = false;
}

namespace {
Graph checked(Graph graph, bool training) {
  for (const Node& n : graph.nodes) {
    if (passes::updates_inputs(n, training)) control_flow::refuse_update(*n.op);
  }
  number_draws(graph, training);
  return graph;
}
}  // namespace

NestedBody::NestedBody(Graph graph, bool training, bool exact)
    : plan_(new ExecutionPlan(passes::run(checked(std::move(graph), training), {.training = training, .exact = exact}),
                              {.training = training, .exact = exact, .parallel_regions = false})),
      run_(plan_->make_nested_run()) {}

void NestedBody::begin(NestedContext& context) {
  context_ = &context;
  arena_ = context.keep(plan_->memory().arena_bytes);
}

uint64_t draws_of(const Graph& graph, bool training) {
  uint64_t sum = 0;
  for (const Node& n : graph.nodes) {
    if (n.op && draws_numbers(*n.op, n.attrs.get(), training)) sum += random_draws(n.outputs[0].shape);
  }
  return sum;
}

ControlFlowState::ControlFlowState(const ControlFlow& program, const KernelContext& c) {
  std::vector<TensorMeta> all;
  for (const TensorView& v : c.inputs) all.push_back({v.shape, v.dtype});
  metas = program.iteration(all);
  const Graph body = program.inferred(0, metas);
  for (ValueId v : body.outputs) results.push_back(body.meta(v));
  if (program.is_loop()) draws = draws_of(body, c.training);
  if (program.kind == ControlKind::while_loop) {
    const Graph condition = program.inferred(1, metas);
    predicate = condition.meta(condition.outputs[0]).dtype;
  }
  inputs.resize(metas.size());
}

void ControlFlowState::begin(const ControlFlow& program, const KernelContext& c) {
  context.begin(c.run);
  for (auto& b : bodies) {
    if (b) b->begin(context);
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = c.inputs[i].data;
  sources.clear();
  if (!c.sources) return;
  sources.assign(c.sources, c.sources + inputs.size());
  std::fill_n(sources.begin(), program.num_data + program.num_states, Source());  // these differ between iterations
}

NestedBody& ControlFlowState::body(const ControlFlow& program, size_t i, const KernelContext& c) {
  if (!bodies[i]) {
    bodies[i].emplace(program.inferred(i, metas), c.training, c.exact);
    bodies[i]->begin(context);
  }
  return *bodies[i];
}

RandomKey key_of(const ControlFlow& program, const KernelContext& c) {
  if (!program.is_random) return {};
  const auto* key = c.inputs.data()[program.num_values()].as<const int64_t>();
  return {uint64_t(key[0]), uint64_t(key[1])};
}

bool is_true(const void* value, DType dtype) {
  return dispatch_all("cond", dtype, [&]<class T>() { return double(*static_cast<const T*>(value)) != 0; });
}

void point_at_row(const ControlFlow& program, ControlFlowState& s, const KernelContext& c, int64_t k) {
  for (size_t i = 0; i < size_t(program.num_data); ++i) {
    s.inputs[i] = c.inputs[i].as<char>() + size_t(k) * bytes_of(s.metas[i]);
  }
}

int64_t run_loop(const ControlFlow& program, ControlFlowState& s, const KernelContext& c,
                 FunctionRef<void*(int, int64_t)> output_at, FunctionRef<void*(int, int64_t)> state_at) {
  const bool is_while = program.kind == ControlKind::while_loop;
  const int64_t limit = is_while ? program.max_iterations : c.in(0).shape[0];
  if (limit == 0) return 0;
  const RandomKey key = key_of(program, c);
  NestedBody& body = s.body(program, 0, c);
  NestedBody* condition = is_while ? &s.body(program, 1, c) : nullptr;
  s.outputs.resize(size_t(program.num_results()));
  int64_t k = 0;
  try {
    for (; k < limit; ++k) {
      alignas(8) std::byte value[8];
      void* const result[] = {value};
      if (condition) {
        condition->run(s.inputs, result, s.sources, {});
        if (!is_true(value, s.predicate)) break;
      }
      point_at_row(program, s, c, k);
      for (int i = 0; i < program.num_results(); ++i) {
        s.outputs[size_t(i)] = program.is_stacked(i) ? output_at(i, k) : state_at(i - program.num_outputs, k);
      }
      body.run(s.inputs, s.outputs, s.sources, {key.seed, key.offset + uint64_t(k) * s.draws});
      std::copy_n(s.outputs.begin() + program.num_outputs, program.num_states, s.inputs.begin() + program.num_data);
    }
  } catch (...) {
    std::rethrow_exception(add_context(std::current_exception(), fmt::format(" in iteration {}", k)));
  }
  return k;
}

}  // namespace kaon::graph

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/device/backend.h"
#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/passes/passes.h"

namespace kaon::graph::passes {
namespace {

// A pass that keeps every bit, and one that does not.
template <Graph (*F)(Graph, bool)>
constexpr Pass exact(const char* name) {
  return {name, [](Graph g, const Options& o) { return F(std::move(g), o.training); }};
}
template <Graph (*F)(Graph, bool)>
constexpr Pass rounding(const char* name) {
  return {name, [](Graph g, const Options& o) { return F(std::move(g), o.training); }, false};
}

Graph gradient(Graph g, const Options& o) {
  if (o.wanted.empty()) return g;
  const size_t inputs = g.inputs.size();
  GradientForm form{.heads = arrivals(o.heads), .refused = o.refused, .reports = !o.update, .rows = o.rows};
  if (!o.mirror) form.keeps = o.training;
  g = with_gradient(std::move(g), o.wanted, form);
  return o.update ? with_ones_for_heads(std::move(g), inputs) : g;
}

// A gradient's program repeats calls, such as h / b in both gradients of a / b. Merged at a pole they would have one
// infinite gradient, where the imperative run's two cancel to NaN.
Graph merge_before_gradient(Graph g, const Options& o) {
  if (o.is_gradient) return g;
  const bool has_gradient = !o.wanted.empty();
  return has_gradient ? common_subexpressions_before_gradient(std::move(g), o.training)
                      : common_subexpressions(std::move(g), o.training);
}

Graph rematerialized(Graph g, const Options& o) {
  if (o.rematerialize_depth == 0) return g;
  return rematerialize(std::move(g), o.training, o.rematerialize_depth);
}

// Late, since passes do not touch values that an operator updates. Returned values are copied before it.
Graph update(Graph g, const Options& o) {
  if (!o.update) return g;
  const std::vector<ValueId> all = g.outputs;
  g.outputs.resize(g.num_forward_outputs);
  g = own_outputs(std::move(g));
  g.outputs.insert(g.outputs.end(), all.begin() + g.num_forward_outputs, all.end());
  return with_update(std::move(g), *o.update);
}

Graph layouts_of(Graph g, const Options& o) {
  if (!o.autotune || o.device.type != DeviceType::cpu) return layouts(std::move(g), o);
  size_t bytes = 0;
  for (const Node& n : g.nodes) {
    for (const TensorMeta& m : n.outputs) bytes += size_t(m.shape.size()) * size_of(m.dtype);
  }
  return layouts(std::move(g), o, measured_costs(o.training, o.winograd, bytes).get());
}
Graph fused_pointwise(Graph g, const Options&) { return fuse_pointwise(std::move(g)); }

std::string for_cpus(const Options& o) { return o.device.type == DeviceType::cpu ? "" : "for CPUs"; }
std::string for_gpus_with_compiler(const Options& o) {
  return o.device.type == DeviceType::gpu ? gpu_driver(o.device.index).why_no_compiler() : "for GPUs";
}

constexpr Pass passes[] = {
    rounding<drop_dropout>("drop_dropout"),  // gradients that met at it meet elsewhere: another order of additions
    rounding<separate_rnn_parameters>("separate_rnn_parameters"),
    {"common_subexpressions", merge_before_gradient, false},
    {"gradient", gradient},
    exact<drop_dropout>("drop_dropout"),
    exact<common_subexpressions>("common_subexpressions"),
    exact<fold_constants>("fold_constants"),
    rounding<fold_transposes>("fold_transposes"),
    rounding<pool_activation_gradients>("pool_activation_gradients"),
    exact<dead_code>("dead_code"),
    {"dense_products", [](Graph g, const Options&) { return dense_products(std::move(g)); }},
    rounding<fuse_bias>("fuse_bias"),
    rounding<fold_batch_norm>("fold_batch_norm"),
    rounding<fuse_sum>("fuse_sum"),
    rounding<fuse_activation>("fuse_activation"),
    {"layouts", layouts_of, false},
    {"rematerialize", rematerialized},
    {"update", update},
    {"own_outputs", [](Graph g, const Options&) { return own_outputs(std::move(g)); }},
    {"fuse_pointwise", fused_pointwise, true, for_cpus},
    {"fuse_kernels", [](Graph g, const Options&) { return fuse_kernels(std::move(g)); }, false, for_gpus_with_compiler},
};

size_t operators(const Graph& g) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op != nullptr; }));
}

// Calls seen(name, graph, why) for the traced graph and after each pass; `why` it was left out, if it was.
template <class Seen>
Graph run_all(Graph g, const Options& options, Seen&& seen) {
  seen("as traced", g, "");
  for (const Pass& pass : passes) {
    if (options.exact && !pass.in_exact) continue;
    const std::string why_not = pass.why_not ? pass.why_not(options) : std::string();
    if (why_not.empty()) g = pass.run(std::move(g), options);
    seen(pass.name, g, why_not);
  }
  return g;
}

struct Passed {
  Graph graph;
  Options options;
};

// Tries depths of rematerialize, 0 included, and returns the graph whose plan takes the least memory.
Passed smallest(Graph traced, const Options& options) {
  constexpr int depths[] = {1, 4, 16};
  const auto with = [&](int depth) {
    Passed p{{}, options};
    p.options.rematerialize_depth = depth;
    p.graph = run_all(traced, p.options, [](const char*, const Graph&, const std::string&) {});
    return p;
  };
  Passed best = with(0);
  if (!options.mirror || options.wanted.empty()) return best;
  size_t least = plan_memory(best.graph).arena_bytes;
  for (int depth : depths) {
    Passed p = with(depth);
    const size_t bytes = plan_memory(p.graph).arena_bytes;
    if (bytes >= least) continue;
    least = bytes;
    best = std::move(p);
  }
  return best;
}

}  // namespace

Graph program(Graph traced, const Options& options) { return update(gradient(std::move(traced), options), options); }

std::span<const Pass> pipeline() { return passes; }

Graph run(Graph traced, const Options& options) { return smallest(std::move(traced), options).graph; }

std::string explain(Graph traced, const Options& options) {
  const Options chosen = smallest(traced, options).options;
  std::string text, last;
  run_all(std::move(traced), chosen, [&](const char* name, const Graph& g, const std::string& why_not) {
    std::string now = g.str();
    text += !why_not.empty() ? fmt::format("--- {}: not run: {}\n", name, why_not)
            : now == last    ? fmt::format("--- {}: no change\n", name)
                             : fmt::format("--- {}: {} operators\n{}", name, operators(g), now);
    last = std::move(now);
  });
  return text;
}

}  // namespace kaon::graph::passes

// What the cases of the passes share: a graph is run before and after.
#pragma once

#include <algorithm>

#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/tests/graph/support.h"

namespace kaon::test {

using namespace graph;

// The traced program with the shapes of these arrays.
inline Graph traced(const Symbol& s, const std::vector<std::string>& names, const std::vector<NDArray>& inputs) {
  Graph g = Graph::from_symbol(s, names);
  std::vector<TensorMeta> metas;
  for (const NDArray& a : inputs) metas.push_back({a.shape(), a.dtype()});
  infer_graph(g, metas);
  return g;
}

inline Graph channels_last(Graph g) { return passes::layouts(std::move(g), passes::Options()); }

inline size_t operators(const Graph& g) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op != nullptr; }));
}
inline size_t count(const Graph& g, std::string_view op) {
  return size_t(
      std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op && n.op->name() == op; }));
}

// The outputs of a graph, then the gradients that it computes, for head gradients that differ per element.
inline std::vector<NDArray> evaluate(const Graph& graph, const std::vector<NDArray>& inputs,
                                     const PlanOptions& options = {}) {
  IntrusivePtr<ExecutionPlan> plan(new ExecutionPlan(passes::own_outputs(graph), options));
  std::vector<const NDArray*> arrays;
  for (const NDArray& a : inputs) arrays.push_back(&a);
  std::vector<NDArray> outputs(graph.num_forward_outputs), results(graph.outputs.size() - graph.num_forward_outputs);
  const bool recorded = graph.inputs.size() > inputs.size();
  PlanRun& run = plan->forward(arrays, outputs, {"forward"}, recorded);
  if (recorded) {
    std::vector<NDArray> heads;
    for (size_t i = 0; i < outputs.size(); ++i) {
      heads.push_back(numbers(outputs[i].shape(), 77 + uint32_t(i)).astype(outputs[i].dtype()));
    }
    for (const NDArray& h : heads) arrays.push_back(&h);
    plan->backward(run, arrays, outputs, results, {"backward"}, false);
    plan->end_lease(run);
  }
  outputs.insert(outputs.end(), results.begin(), results.end());
  return outputs;
}

// Within the bounds of plans that are not exact: 1e-4 of an output and 1e-5 of the largest one, 1e-3 on gradients; for
// 16-bit floats what their own rounding allows.
inline void require_within_bounds(const std::vector<NDArray>& got, const std::vector<NDArray>& want, size_t outputs) {
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    REQUIRE(got[k].shape() == want[k].shape());
    REQUIRE(got[k].dtype() == want[k].dtype());
    const auto a = got[k].asvector<double>(), b = want[k].asvector<double>();
    const DType t = got[k].dtype();
    const double half = t == DType::float16 ? 4e-3 : t == DType::bfloat16 ? 3e-2 : 0;
    double largest = 1;
    for (const double v : b) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
    const double rtol = std::max(half, k < outputs ? 1e-4 : 1e-3);
    const double atol = std::max(half, k < outputs ? 1e-5 * largest : 1e-3);
    size_t i = 0;
    while (i < a.size() && std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i])) ++i;
    if (i < a.size()) FAIL("array " << k << " at " << i << ": got " << a[i] << ", expected " << b[i]);
  }
}

// Runs the graph before and after; gives the graph after.
template <class PassFunction>
Graph check_pass(PassFunction&& pass, const Graph& before, const std::vector<NDArray>& inputs, bool exact = false,
                 const PlanOptions& options = {}) {
  Graph after = passes::dead_code(pass(before), options.training);
  after.validate();
  const auto want = evaluate(before, inputs, options), got = evaluate(after, inputs, options);
  require_within_bounds(got, want, before.num_forward_outputs);
  for (size_t i = 0; exact && i < got.size(); ++i) {
    INFO("array " << i);
    REQUIRE(same_bits(got[i], want[i]));
  }
  return after;
}

}  // namespace kaon::test

#include "kaon/graph/control_flow/kept_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/control_flow/rounds.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/op_def.h"

namespace kaon::graph {
namespace {

// Made from nothing, such as zeros: kept values would cost more than the node.
bool is_made_again(const Node& n) { return n.inputs.empty() && !n.op->traits.random; }

// The values of the forward that the gradients in this graph read, through views of them.
class ReadValues {
 public:
  void add(const Graph& g) {
    std::vector<bool> seen(g.nodes.size(), false);
    std::vector<uint32_t> stack;
    auto read = [&](ValueId v) {
      const ValueId owner = passes::root(g, v);
      const Node& n = g.nodes[owner.node];
      if (n.phase == Phase::forward && g.nodes[v.node].phase == Phase::forward) {
        if (n.constant.defined() || (n.op && is_made_again(n))) return;
        if (std::find(values.begin(), values.end(), owner) == values.end()) values.push_back(owner);
      } else if (!seen[v.node]) {
        seen[v.node] = true;
        stack.push_back(v.node);
      }
    };
    for (size_t i = g.num_forward_outputs; i < g.outputs.size(); ++i) read(g.outputs[i]);
    while (!stack.empty()) {
      const uint32_t node = stack.back();
      stack.pop_back();
      for (ValueId v : g.nodes[node].inputs) read(v);
    }
  }
  std::vector<ValueId> values;
};

}  // namespace

std::optional<KeptLoop> keep_values(const ControlFlow& p, const std::vector<Arrives>& heads,
                                    const std::vector<bool>& wanted, const std::vector<bool>& own,
                                    std::span<const TensorMeta> inputs, bool training) {
  if (p.kind != ControlKind::foreach) return {};
  const std::vector<TensorMeta> metas = p.iteration(inputs);
  const std::vector<bool> values = wanted_values(p, wanted, metas);
  Graph body = passes::drop_dropout(p.inferred(0, metas), training);
  ReadValues read;
  try {
    bool adds = false;
    find_rounds(p, heads, most_iterations(p, inputs[0].shape), [&](const Arrivals& at_results) {
      GradientForm form{
          .heads = at_results, .sums = sums_of(p, values, adds), .own = own_values(p, own), .reports = true};
      read.add(with_gradient(body, values, form));
      adds = true;
      return std::move(form.arrives);
    });
  } catch (const StateError&) {  // an operator without a gradient, which is an error when this gradient runs
    return {};
  }
  KeptLoop kept;
  ControlFlow keeping = p;
  auto keep = [&](ValueId v) {
    for (int i = 0; i < int(body.outputs.size()); ++i) {
      if (!keeping.is_stacked(i) || body.outputs[size_t(i)] != v) continue;
      kept.results.push_back(i);
      return;
    }
    kept.results.push_back(int(body.outputs.size()));
    body.outputs.push_back(v);
    ++keeping.num_kept;
  };
  for (ValueId v : read.values) {
    if (!body.nodes[v.node].is_input()) {
      keep(v);
      continue;
    }
    // A state before an iteration is what the iteration before has returned; rows and captured values are inputs.
    const auto place = std::find(body.inputs.begin(), body.inputs.end(), v.node) - body.inputs.begin() - p.num_data;
    if (place >= 0 && place < p.num_states) keep(body.outputs[size_t(p.num_outputs + place)]);
  }
  std::sort(kept.results.begin(), kept.results.end());
  kept.results.erase(std::unique(kept.results.begin(), kept.results.end()), kept.results.end());
  body.num_forward_outputs = uint32_t(body.outputs.size());
  keeping.graphs[0] = std::move(body);
  kept.program = intern_program(std::move(keeping));
  return kept;
}

Graph read_kept(const Graph& g, const std::vector<int>& results) {
  passes::Rewriter out(g);
  std::vector<uint32_t> more;
  std::vector<std::vector<ValueId>> places(g.nodes.size());
  for (int r : results) {
    const ValueId v = g.outputs[size_t(r)];
    Node input;
    input.name = fmt::format("kept{}", r);
    input.outputs = {g.meta(v)};
    const ValueId in = out.add(std::move(input));
    more.push_back(in.node);
    if (g.nodes[v.node].is_input()) continue;  // a state that another one becomes
    places[v.node].resize(g.nodes[v.node].outputs.size(), in);
    places[v.node][v.output] = in;
  }
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    out.keep(i);
    if (!places[i].empty()) out.replace(i, places[i]);
  }
  Graph result = out.finish();
  result.inputs.insert(result.inputs.end(), more.begin(), more.end());
  return result;
}

}  // namespace kaon::graph

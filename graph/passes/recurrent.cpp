// The parameters of recurrent layers, which a program puts together for RNN and RNN takes apart.
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"

namespace kaon::graph::passes {
namespace {

// The node that puts them together, one array for each that is taken apart; null if it is none.
const Node* joined(const Graph& g, const Node& n, const std::vector<bool>& updated) {
  if (n.op != &op::RnnParameters::def || reads_updated(g, n, updated)) return nullptr;
  const Node& join = g.nodes[n.inputs[0].node];
  if (join.op != &op::Concat::def || join.inputs.size() != n.outputs.size()) return nullptr;
  if (reads_updated(g, join, updated)) return nullptr;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (g.meta(join.inputs[i]).shape != Shape(n.outputs[i].shape.size())) return nullptr;
  }
  return &join;
}

// The array of this shape that v is a view of; v itself when there is none.
ValueId behind(const Graph& g, ValueId v, const Shape& shape, const std::vector<bool>& updated) {
  const Node& n = g.nodes[v.node];
  const bool is_reshaped = n.op == &op::Reshape::def || n.op == &op::ReshapeTo::def;
  return is_reshaped && g.meta(n.inputs[0]).shape == shape && !reads_updated(g, n, updated) ? n.inputs[0] : v;
}

}  // namespace

Graph separate_rnn_parameters(Graph g, bool training) {
  const std::vector<bool> updated = updated_nodes(g, training);
  Rewriter out(g);
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const Node* const join = joined(g, n, updated);
    if (!join) {
      out.keep(i);
      continue;
    }
    std::vector<ValueId> parts;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const Shape& shape = n.outputs[k].shape;
      const ValueId part = behind(g, join->inputs[k], shape, updated);
      if (g.meta(part).shape == shape) {
        parts.push_back(out.now(part));
        continue;
      }
      Node view;
      set_operator(view, op::ReshapeTo{.shape = shape});
      view.name = n.name + "_part";
      view.inputs = {out.now(part)};
      view.outputs = {n.outputs[k]};
      view.phase = n.phase;
      parts.push_back(out.add(std::move(view)));
    }
    out.replace(i, std::move(parts));
  }
  return out.finish();
}

}  // namespace kaon::graph::passes

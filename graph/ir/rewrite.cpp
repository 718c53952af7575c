#include "kaon/graph/ir/rewrite.h"

#include <algorithm>

#include "kaon/ops/nn/norm/kernels/moving_statistics.h"
#include "kaon/ops/nn/norm/norm.h"

namespace kaon::graph::passes {

bool updates_inputs(const Node& n, bool training) {
  return n.op && n.op->traits.mutates != 0 && (training || !n.op->traits.mode_dependent);
}

bool writes_inputs(const Node& n, bool training) {
  return updates_inputs(n, training) && !(n.op == &op::BatchNorm::def && ops::statistics_move_with_gradients());
}

ValueId root(const Graph& g, ValueId v) {
  while (g.nodes[v.node].op && g.nodes[v.node].op->traits.view) v = g.nodes[v.node].inputs[0];
  return v;
}

std::vector<bool> updated_nodes(const Graph& g, bool training) {
  std::vector<bool> updated(g.nodes.size(), false);
  for (const Node& n : g.nodes) {
    if (!writes_inputs(n, training)) continue;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (is_mutated(n.op->traits, int(i), int(n.inputs.size()))) updated[root(g, n.inputs[i]).node] = true;
    }
  }
  return updated;
}

bool reads_updated(const Graph& g, const Node& n, const std::vector<bool>& updated) {
  return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return updated[root(g, v).node]; });
}

Node Rewriter::copy(uint32_t old) const {
  Node n = from_.nodes[old];
  for (ValueId& v : n.inputs) v = now(v);
  return n;
}

void Rewriter::replace(uint32_t old, Node node) {
  const uint32_t outputs = uint32_t(node.outputs.size());
  node.provenance = from_.nodes[old].provenance;
  const ValueId v = to_.add(std::move(node));
  now_[old].clear();
  for (uint32_t k = 0; k < outputs; ++k) now_[old].push_back({v.node, k});
}

void Rewriter::replace(uint32_t old, std::vector<ValueId> now) {
  for (Provenance o : from_.nodes[old].provenance) {
    if (o.output >= now.size()) continue;
    const ValueId v = now[o.output];
    o.output = v.output;
    to_.nodes[v.node].provenance.push_back(o);
  }
  now_[old] = std::move(now);
}

Graph Rewriter::finish() {
  for (uint32_t i : from_.inputs) to_.inputs.push_back(now({i, 0}).node);
  for (ValueId v : from_.outputs) to_.outputs.push_back(now(v));
  to_.num_forward_outputs = from_.num_forward_outputs;
  return std::move(to_);
}

}  // namespace kaon::graph::passes

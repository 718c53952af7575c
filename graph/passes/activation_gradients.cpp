// Gradients of activations, on pooled values.
#include <utility>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"

namespace kaon::graph::passes {

Graph pool_activation_gradients(Graph g, bool training) {
  const std::vector<bool> updated = updated_nodes(g, training);
  const auto uses = count_uses(g);
  for (Node& n : g.nodes) {
    if (n.op != &op::BackwardActivation::def) continue;
    const ValueId from = n.inputs[0], output = n.inputs[1];
    Node& pooling = g.nodes[from.node];
    if (pooling.op != &op::BackwardPooling::def || attributes<op::BackwardPooling>(pooling).pool_type != PoolType::max)
      continue;
    if (pooling.inputs[1] != output || uses[from.node][0] != 1 || pooling.phase != n.phase) continue;
    if (reads_updated(g, pooling, updated) || reads_updated(g, n, updated)) continue;
    const ValueId head = pooling.inputs[0], pooled = pooling.inputs[2];
    std::swap(n.op, pooling.op);
    std::swap(n.attrs, pooling.attrs);
    pooling.inputs = {head, pooled};
    pooling.outputs = {g.meta(head)};
    pooling.provenance.clear();  // another value now
    n.inputs = {from, output, pooled};
  }
  return g;
}

}  // namespace kaon::graph::passes

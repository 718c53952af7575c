// Helpers of the passes: queries of a graph, and building one from another.
#pragma once

#include "kaon/graph/ir/graph.h"

namespace kaon::graph::passes {

// Whether this node may write to an input. BatchNorm may in training only.
bool updates_inputs(const Node& node, bool training);
// Whether it does: a BatchNorm leaves its moving statistics alone where they move with its gradient.
bool writes_inputs(const Node& node, bool training);

// The value that owns this value's memory, through views.
ValueId root(const Graph& graph, ValueId v);

// By node: whether an operator updates its value, so that its readers depend on their time.
std::vector<bool> updated_nodes(const Graph& graph, bool training);
// True when an input is updated: then the node must not run later, nor its inputs be read later, than now.
bool reads_updated(const Graph& graph, const Node& node, const std::vector<bool>& updated);

// The attributes of a node that is known to be an Op.
template <class Op>
const Op& attributes(const Node& node) {
  return *static_cast<const Op*>(node.attrs.get());
}
template <class Op>
void set_operator(Node& node, const Op& op) {
  node.op = &Op::def;
  node.attrs = Attributes(Op::def, &op);
}

// A new graph from the nodes of another, visited in order.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), now_(from.nodes.size()) {}

  ValueId now(ValueId old) const { return now_[old.node][old.output]; }
  // The node of a value of the new graph.
  const Node& node(ValueId v) const { return to_.nodes[v.node]; }
  // A node of the old graph with its inputs as they are in the new one.
  Node copy(uint32_t old) const;
  ValueId add(Node node) { return to_.add(std::move(node)); }
  void keep(uint32_t old) { replace(old, copy(old)); }
  // Maps the old node's outputs to those of this node, or to these values, with their provenance.
  void replace(uint32_t old, Node node);
  void replace(uint32_t old, std::vector<ValueId> now);
  void replace(uint32_t old, ValueId now) { replace(old, std::vector{now}); }
  // Inputs and outputs as in the old graph. All inputs must have been kept.
  Graph finish();

 private:
  const Graph& from_;
  Graph to_;
  std::vector<std::vector<ValueId>> now_;  // by old node and output
};

}  // namespace kaon::graph::passes

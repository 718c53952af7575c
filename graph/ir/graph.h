// Graph: a program as a value: nodes in topological order.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/symbol.h"
#include "kaon/ops/operator/op_attributes.h"

namespace kaon::graph {

// Output `output` of node `node`.
struct ValueId {
  uint32_t node = 0;
  uint32_t output = 0;
  friend bool operator==(ValueId, ValueId) = default;
};

// Which run executes a node: a recorded forward keeps the values that the backward needs.
enum class Phase : uint8_t { forward, backward };

// The value of the traced program (with its gradient, before passes) that a node's output has: output `result` of node
// `node`, or of the step-th operator of that node's gradient. Verification compares by it, so a pass that gives a node
// another value gives it that value's provenance, or none; Rewriter does that.
struct Provenance {
  uint32_t output = 0;  // of the node that has this origin
  uint32_t node = 0, step = 0, result = 0;
};

struct Node {
  const OpDef* op = nullptr;  // nullptr: input, or constant when `constant` is defined
  Attributes attrs;
  std::string name;
  std::vector<ValueId> inputs;
  std::vector<TensorMeta> outputs;
  std::vector<Layout> layouts;  // of the outputs; missing: row_major
  std::vector<Provenance>
      provenance;  // of its outputs; several where values were merged, none where a pass made them up
  NDArray constant;
  std::shared_ptr<const std::string> demand;  // SymbolNode::demand
  Phase phase = Phase::forward;
  uint8_t variant = 0;             // KernelContext::variant
  bool is_rematerialized = false;  // a value of the forward, computed a second time for the backward
  bool is_detached = false;        // of a traced program: made by detach(), which the imperative run does not record
  bool equal_shapes = false;       // its inputs must have one shape, though the operator broadcasts
  uint64_t random_offset = 0;      // of its first random number among the program's

  bool is_input() const { return !op && !constant.defined(); }
};

// Groups of nodes without edges between groups: group g is [groups[g], groups[g + 1]), and may run in parallel with
// others.
struct ParallelRegion {
  std::vector<uint32_t> groups;
};

// Inputs of a node have smaller numbers than the node. Thread safety: a value.
class Graph {
 public:
  std::vector<Node> nodes;
  std::vector<uint32_t> inputs;  // input nodes, in the order in which arrays are given
  std::vector<ValueId> outputs;
  uint32_t num_forward_outputs = 0;              // the first outputs; the rest are gradients
  std::vector<ParallelRegion> parallel_regions;  // in order; of a graph that is about to become a plan

  const TensorMeta& meta(ValueId v) const { return nodes[v.node].outputs[v.output]; }
  ValueId add(Node node) {
    // a node that another one's copy has become may have fewer outputs than that
    std::erase_if(node.provenance, [&](const Provenance& o) { return o.output >= node.outputs.size(); });
    nodes.push_back(std::move(node));
    return {uint32_t(nodes.size() - 1), 0};
  }
  Layout layout(ValueId v) const {
    const auto& l = nodes[v.node].layouts;
    return v.output < l.size() ? l[v.output] : Layout::row_major;
  }
  std::string str() const;  // one line per node
  void validate() const;    // throws Error when the order or a reference is wrong

  // The graph of a symbol. `input_order` names the variables in the order wanted; all variables must be in it.
  static Graph from_symbol(const Symbol& symbol, const std::vector<std::string>& input_order);
};

// Fills shapes and dtypes from those of the inputs, and puts in place of each composite operator what it is made of.
// Throws ShapeError naming the node.
void infer_graph(Graph& graph, std::span<const TensorMeta> inputs);

// Gives each node that draws random numbers its place among them: that of an imperative run. Shapes must be known.
void number_draws(Graph& graph, bool training);

// Uses of each value, counting graph outputs.
std::vector<std::vector<uint32_t>> count_uses(const Graph& graph);

}  // namespace kaon::graph

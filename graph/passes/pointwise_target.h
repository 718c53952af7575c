// The target of pointwise groups: a program that runs block by block on the CPU, a compiled kernel on a GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph::passes {

// The node that computes a group, with its inputs and outputs in order. Output 0 may take the memory of input 0.
struct FusedGroup {
  const OpDef* op;
  Attributes attrs;
  std::vector<ValueId> inputs, outputs;
};

// `members`: numbers of nodes in ascending order, with outputs of one shape and layout, and reductions of these. Values
// that are also used outside are outputs; `uses`: count_uses().
struct PointwiseTarget {
  bool (*computes)(const Graph& graph, const Node& node);  // can it be a member?
  bool (*reduces)(const Graph& graph, const Node& node);   // can it follow one, as a reduction of its value?
  // The number of outputs of the node that computes the members; nothing when they do not fit into one node.
  std::optional<size_t> (*num_outputs)(const Graph& graph, std::span<const uint32_t> members,
                                       const std::vector<std::vector<uint32_t>>& uses);
  FusedGroup (*fuse)(const Graph& graph, std::span<const uint32_t> members,
                     const std::vector<std::vector<uint32_t>>& uses);  // where they fit
};

// Pointwise operators that feed each other, and reductions of their values over the last dimensions, become one node,
// as far as that needs no more memory.
Graph fuse_groups(const Graph& graph, const PointwiseTarget& target);

// How a pointwise node, or one that repeats, walks through an input: strides along the dimensions of its output, 0
// where the input repeats; empty: element by element.
Shape strides_of(const Graph& graph, const Node& node, ValueId input);

}  // namespace kaon::graph::passes

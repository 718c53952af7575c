// From a group of pointwise nodes to the program that computes it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kaon/graph/fused_pointwise.h"
#include "kaon/graph/graph.h"

namespace kaon::passes {

// Can this node be part of a program? Float32, one output, no state, known to block_forms().
bool is_block_operator(const Graph& graph, const Node& node);

// Can it follow one? A sum, mean, max or min of float32 over the last dimensions.
bool is_block_reduction(const Graph& graph, const Node& node);

struct PointwiseProgram {
  FusedPointwise op;
  std::vector<ValueId> inputs, outputs;  // in the program's order; output 0 is emitted last
};

// The program of `members`: numbers of block operators in ascending order, with outputs of one shape and layout, and of
// block reductions of these. Values that are also used outside are outputs. Nothing when a limit of BlockProgram is
// exceeded.
std::optional<PointwiseProgram> make_pointwise_program(const Graph& graph, std::span<const uint32_t> members,
                                                       const std::vector<std::vector<uint32_t>>& uses);

}  // namespace kaon::passes

// A training step as one graph, the optimizer's update included.
#pragma once

#include <functional>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

// How a program's inputs change by the gradients of its output.
struct Update {
  std::vector<bool> wanted;  // by input: the weights
  int num_states;            // arrays that the rule keeps for each weight
  size_t first_state;        // the input with the first state of the first weight; all other states follow
  size_t num_shared;         // inputs that follow the states
  // By gradient that is to become a further output: the group of its array. Where the last gradient of a group is
  // computed, the plan ends one operation and begins the next, so that the group can be used while the rest is
  // computed.
  std::vector<uint32_t> groups{};
  // By input: the group of what changes it between steps, or no_group. Where an input of a group is first read, the
  // plan begins an operation, so that what is before does not wait for that group. Empty: it is not cut so.
  std::vector<uint32_t> read_groups{};
  static constexpr uint32_t no_group = ~uint32_t(0);
  std::vector<uint32_t> returned{};  // these gradients, by the number of their weight among the wanted
  // Calls operators that change all weights. Arrays: {weight, gradient, states...} for each weight, then what follows
  // the states among the inputs.
  std::function<void(std::span<const NDArray* const>)> apply;
};

// From a graph with gradients, whose head gradients become ones: everything in one phase, the update last, of the
// gradients only the returned ones outputs.
Graph with_ones_for_heads(Graph graph, size_t program_inputs);
Graph with_update(Graph graph, const Update& update);

}  // namespace kaon::graph

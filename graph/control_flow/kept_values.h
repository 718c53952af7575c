// What the gradient of a foreach reads of its iterations, returned by the loop instead of computed again.
#pragma once

#include <optional>

#include "kaon/graph/control_flow/control_flow_program.h"

namespace kaon::graph {

// The loop that also returns those values, and which of its results they are (a row for each iteration).
struct KeptLoop {
  const ControlFlow* program = nullptr;
  std::vector<int> results;
};

// For a gradient that arrives at the results by `heads`, of the inputs with wanted[i]; `own`: as ControlFlowGradient's;
// `inputs`: shapes and dtypes of the node's. None for other loops than foreach, and where the gradient is an error.
std::optional<KeptLoop> keep_values(const ControlFlow& program, const std::vector<Arrives>& heads,
                                    const std::vector<bool>& wanted, const std::vector<bool>& own,
                                    std::span<const TensorMeta> inputs, bool training);

// A body's graph with its gradient, of which one input more for each of `results` takes the place of that value.
Graph read_kept(const Graph& with_gradient, const std::vector<int>& results);

}  // namespace kaon::graph

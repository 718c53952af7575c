// Nodes of a graph as expressions of a kernel that is compiled at run time.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph::passes {

// An expression for a node's value from the names of its inputs' values, of these dtypes, rounded as the imperative
// kernel stores it. Nothing if its operator has no `cuda_expression`.
std::optional<std::string> kernel_expression(const Node& node, std::span<const std::string> inputs,
                                             std::span<const DType> dtypes);

}  // namespace kaon::graph::passes

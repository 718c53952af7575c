// The backward half of a graph, by the operators' grad rules.
#pragma once

#include "kaon/graph/graph.h"

namespace kaon {

// Appends to `graph` one input per output (its head gradient) and the nodes that compute the gradients of the inputs
// with wanted[i]; those become further outputs, in order (constant zero where none flows). All shapes must be known.
Graph with_gradient(Graph graph, const std::vector<bool>& wanted);

}  // namespace kaon

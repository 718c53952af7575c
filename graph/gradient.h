// The backward half of a graph, by the operators' grad rules.
#pragma once

#include "kaon/graph/graph.h"

namespace kaon {

// Appends to `graph` one input per output (its head gradient) and the nodes that compute the gradients of the inputs
// with wanted[i]; those become further outputs, in order (constant zero where none flows). All shapes must be known.
// StateError where a gradient would have to go through an operator that has none.
Graph with_gradient(Graph graph, const std::vector<bool>& wanted);

// From a program with known shapes, its gradients as a program: (inputs..., head gradients...) to the gradients of the
// inputs with wanted[i]. What the program updates, this one updates in a copy.
Graph gradient_graph(Graph program, const std::vector<bool>& wanted, bool training);

// Is this the kernel of a gradient rule, without a rule of its own? Other operators without a rule have no derivative,
// or one that is zero everywhere; such a one has a derivative that nobody wrote down.
bool ends_differentiation(const OpDef& op);
[[noreturn]] void refuse_gradient(const OpDef& op);  // StateError

}  // namespace kaon

// The backward half of a graph, by the operators' grad rules.
#pragma once

#include "kaon/graph/ir/graph.h"

namespace kaon {

// What else is asked of a gradient, and what came of it: for the body of a loop.
struct GradientForm {
  std::vector<bool> heads{};    // by output: does a gradient arrive there? Empty: at each
  std::vector<bool> sums{};     // by input: is its gradient added to what a further input holds? Empty: nowhere
  std::vector<bool> refused{};  // by output: its head comes in, but no gradient goes out from it. Empty: nowhere
  std::vector<bool> reached{};  // result, by input: does a gradient arrive?
};

// Appends to `graph` one input per output (its head gradient), then one per input with sums[i], and the nodes that
// compute the gradients of the inputs with wanted[i]; those become further outputs, in order (constant zero where none
// flows). All shapes must be known. StateError where a gradient would have to go through an operator that has none.
Graph with_gradient(Graph graph, const std::vector<bool>& wanted, GradientForm& form);
inline Graph with_gradient(Graph graph, const std::vector<bool>& wanted) {
  GradientForm form;
  return with_gradient(std::move(graph), wanted, form);
}

// From a program with known shapes, its gradients as a program: (inputs..., head gradients...) to the gradients of the
// inputs with wanted[i]. What the program updates, this one updates in a copy. `form`: heads and refused.
Graph gradient_graph(Graph program, const std::vector<bool>& wanted, GradientForm form, bool training);

// By input of a gradient_graph(): is it only updated, in a copy? Then its values are not part of what is computed.
std::vector<bool> inputs_updated_in_copies(const Graph& gradients, bool training);

// By output, is it computed from an input with wanted[i]? So is what the imperative run records, be its gradient zero.
std::vector<bool> recorded_outputs(const Graph& program, const std::vector<bool>& wanted);

// By output, why with_gradient throws for it: an operator without a gradient lies on the way. Empty: it does not.
std::vector<std::string> refused_gradients(const Graph& program, const std::vector<bool>& wanted);

// Has the operator a derivative that is not zero everywhere, but no rule for it?
inline bool lacks_gradient(const OpDef& op) { return !op.grad && !op.traits.flat; }
[[noreturn]] void refuse_gradient(const OpDef& op);  // StateError

}  // namespace kaon

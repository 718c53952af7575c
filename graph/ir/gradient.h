// The backward half of a graph, by the operators' grad rules.
#pragma once

#include <optional>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

// Does a gradient arrive at a value? What a branch or a loop reads is known only when it runs: sometimes.
enum class Arrives : uint8_t { never, sometimes, always };

// What else is asked of a gradient, and what came of it: for the body of a loop.
struct GradientForm {
  std::vector<Arrives> heads{};  // by output. Empty: always, at each
  std::vector<bool> sums{};      // by input: is its gradient added to what a further input holds? Empty: nowhere
  std::vector<bool> refused{};   // by output: its head comes in, but no gradient goes out from it. Empty: nowhere
  // By input: is it an output layer with a gradient of its own, or computed from one? Then one of zero arrives too, as
  // behind BlockGrad. Empty: none is.
  std::vector<bool> own{};
  bool reports = false;            // whether a gradient has arrived becomes an output, where it does so sometimes
  std::optional<bool> keeps{};     // loops return what their gradients read, in training or not. Empty: they run again
  std::vector<Arrives> arrives{};  // result, by input; without sums[i]
  // By input: is its gradient given as rows, two outputs in place of one: values (k, ...), and int64 indices (k,) at
  // which they are added? None where no gradient arrives. Empty: nowhere. Cleared where operators give a whole one.
  std::vector<bool> rows{};
};

// Appends to `graph` one input per head that arrives, then one uint8 (1) per head that arrives sometimes, 0 in a run in
// which it does not and holds zeros, then one per input with sums[i]; and the nodes that compute the gradients of the
// inputs with wanted[i]. Those become further outputs, in order (zeros where none arrives), and with form.reports one
// uint8 (1) each for the inputs with arrives[i] == sometimes. All shapes must be known. StateError where a gradient
// would have to go through an operator that has none.
Graph with_gradient(Graph graph, const std::vector<bool>& wanted, GradientForm& form);
inline Graph with_gradient(Graph graph, const std::vector<bool>& wanted) {
  GradientForm form;
  return with_gradient(std::move(graph), wanted, form);
}

// The form as with_gradient() leaves it, with what arrives.
GradientForm gradient_form(const Graph& program, const std::vector<bool>& wanted, GradientForm form);

// The number of outputs that with_gradient() has added, from the form as it has left it.
size_t num_gradient_outputs(const std::vector<bool>& wanted, const GradientForm& form);

// From "does one arrive?"; empty stays empty.
std::vector<Arrives> arrivals(const std::vector<bool>& heads);

// From a program with known shapes, its gradients as a program: (inputs..., head gradients...) to the gradients of the
// inputs with wanted[i]. What the program updates, this one updates in a copy. `form`: heads, refused, reports.
Graph gradient_graph(Graph program, const std::vector<bool>& wanted, GradientForm form, bool training);

// By input of a gradient_graph(): is it only updated, in a copy? Then its values are not part of what is computed.
std::vector<bool> inputs_updated_in_copies(const Graph& gradients, bool training);

// By output, is it computed from an input with wanted[i]? So is what the imperative run records, be its gradient zero.
std::vector<bool> recorded_outputs(const Graph& program, const std::vector<bool>& wanted);

// By output, is it, or what it is computed from, an output layer whose gradient is its own, whatever arrives?
std::vector<bool> own_gradients(const Graph& program, const std::vector<bool>& wanted);

// By output, why with_gradient throws for it: an operator without a gradient lies on the way. Empty: it does not.
std::vector<std::string> refused_gradients(const Graph& program, const std::vector<bool>& wanted);

// Has the operator a derivative that is not zero everywhere, but no rule for it?
inline bool lacks_gradient(const OpDef& op) { return !op.grad && !op.traits.flat; }
[[noreturn]] void refuse_gradient(const OpDef& op);  // StateError

}  // namespace kaon::graph

// What inference of shapes and of dtypes share: names of what is known, results in MXNet's order, errors in its form.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kaon/engine/run_context.h"
#include "kaon/graph/inference/infer.h"

namespace kaon::mxnet {

// The inputs that `n` known things are of: by name, or without keys (null, or a first one that is null) the arguments
// in their order. Throws ValueError for a name that is no input, and for more than there are.
std::vector<std::string> input_names(const Symbol& symbol, uint32_t n, const char** keys);

template <class Known>
struct Inferred {
  std::vector<Known> arguments, outputs, auxiliary_states;
  template <class Test>
  bool all(Test&& test) const {
    return std::all_of(arguments.begin(), arguments.end(), test) && std::all_of(outputs.begin(), outputs.end(), test) &&
           std::all_of(auxiliary_states.begin(), auxiliary_states.end(), test);
  }
};

template <class Known>
Inferred<Known> results(const Symbol& symbol, const graph::ByNode<Known>& found);

// Calls infer; an error gets the name of the node at which it was found in front, as in MXNet.
[[noreturn]] void throw_with_operator(const Error& error, const graph::SymbolNode* failed);
template <class Infer>
auto with_operator_named(Infer&& infer) {
  const graph::SymbolNode* failed = nullptr;
  try {
    return infer(&failed);
  } catch (const Error& error) {
    throw_with_operator(error, failed);
  }
}

}  // namespace kaon::mxnet

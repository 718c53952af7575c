// Program: what a model does for inputs of certain shapes and dtypes, as Symbols.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kaon/gluon/symbol_block.h"
#include "kaon/interchange/onnx/convert/evaluate.h"
#include "kaon/interchange/onnx/convert/value.h"

namespace kaon::onnx::convert {

// A function that runs on the host outside of plans: what it computes has a shape, or is a number, that Kaon's
// operators do not make.
using HostFunction = std::function<std::vector<NDArray>(const std::vector<NDArray>& inputs)>;

// What has to be done before the program proper, in order: values that the conversion has read, which must be the same
// again; and host functions, whose results are variables of the program and must have the same shapes again.
struct Step {
  std::vector<Symbol> reads;
  std::vector<NDArray> expected;  // a guard: the values
  HostFunction function;          // or a function,
  std::vector<Symbol> results;    // and the variables that it gives values
};

struct Program {
  std::vector<Symbol> inputs;  // variables, of all arrays among the model's inputs
  std::vector<Step> steps;
  std::vector<Value> outputs;
  std::vector<gluon::Parameter> parameters;  // of `outputs` and `steps`
  std::vector<Symbol> parameter_variables;

  // Binds inputs and parameters and makes the steps. False where one of them comes out otherwise than for the inputs
  // that the program was made for. Blocks where there are steps.
  bool prepare(const std::vector<NDArray>& arrays, Evaluator& values) const;

  std::vector<Symbol> computed;                     // the outputs' tensors that are not constant
  std::vector<Symbol> block_inputs;                 // the variables that `block` takes
  mutable std::optional<gluon::SymbolBlock> block;  // of `computed`
  mutable uint64_t changes = 0;                     // of the model's block, when `block` got its options
  void finish();                                    // makes the last parts of the others
};

bool same_values(const NDArray& a, const NDArray& b);  // blocks

}  // namespace kaon::onnx::convert

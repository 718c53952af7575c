// A program of Symbols as the graph of a model.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kaon/graph/symbol.h"
#include "kaon/interchange/onnx/export/emit.h"

namespace kaon::onnx::exporting {

// A program, what it takes, and the values of its other variables.
struct Program {
  Symbol symbol;
  std::vector<std::pair<std::string, TensorMeta>> inputs;
  std::unordered_map<std::string, NDArray> values;
};

// The graph for inputs of these shapes, of what the program predicts. Throws ValueError for an operator that is not
// written, and what inference of shapes throws.
Builder write_whole(const Program& program, int64_t opset, Builder::Constants constants);

}  // namespace kaon::onnx::exporting

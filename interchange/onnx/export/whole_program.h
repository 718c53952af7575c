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

// The program again, on variables whose shapes are known: so are all others then.
struct KnownProgram {
  Symbol symbol;
  std::unordered_map<std::string, Symbol> variables;
};
// Throws what inference of shapes throws.
KnownProgram with_known_shapes(const Program& program);

// The graph for inputs of these shapes, of what the program predicts. Throws ValueError for an operator that is not
// written.
Builder write_whole(const Program& program, const KnownProgram& known, int64_t opset, Builder::Constants constants);

}  // namespace kaon::onnx::exporting

// Whether the values of a model are each made once, and before they are read.
#pragma once

#include <string>
#include <vector>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::format {

// "'name' (Gemm) that makes 'y'".
std::string describe(const Node& node);

// What is wrong with the values of the model's graph, of the graphs inside its nodes and of its functions: read before
// a node makes them, made by none or several, or named twice among inputs or initializers. Each names the value, and
// the node that reads or makes it. Empty: nothing. At most 20.
std::vector<std::string> find_faults(const Model& model);

}  // namespace kaon::onnx::format

// The order of nodes, and whether the values of a model are each made once and before they are read.
#pragma once

#include <string>
#include <vector>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::format {

// "'name' (Gemm) that makes 'y'".
std::string describe(const Node& node);

// Puts each node behind the nodes that make what it reads. The format asks for that order, but there are tools that
// write others, which ONNX Runtime sorts as well. Nodes in order stay as they are; so do those that wait for one
// another, at the end.
void sort_nodes(std::vector<Node>& nodes);

// What is wrong with the values of the model's graph, of the graphs inside its nodes and of its functions: read before
// a node makes them, made by none or several, or named twice among inputs or initializers. Each names the value, and
// the node that reads or makes it. Empty: nothing. At most 20.
std::vector<std::string> find_faults(const Model& model);

}  // namespace kaon::onnx::format

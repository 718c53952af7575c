// Programs of Symbols as nodes of an ONNX graph.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kaon/graph/ir/graph.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx/export/emit.h"

namespace kaon::onnx::exporting {

// By node: the names of its values in the ONNX graph.
using ValueNames = std::unordered_map<const graph::SymbolNode*, std::vector<std::string>>;

// Writes what the program computes, whose shapes are all known, and returns the names of its values. `names` has those
// of its variables; others are constants or have an array in `values`. What follows from constants alone is computed
// and written as an array. Throws ValueError naming the node whose operator is not written.
std::vector<std::string> write_program(const Symbol& program, Builder& builder, ValueNames names,
                                       const std::unordered_map<std::string, NDArray>& values = {});

// Writes one operator: by its writer, or as what it is made of.
std::vector<std::string> write_node(const graph::SymbolNode& node, Builder& builder, std::vector<std::string> inputs);
// As what it is made of, though it may have a writer.
std::vector<std::string> write_parts(const graph::SymbolNode& node, Builder& builder, std::vector<std::string> inputs);

// Writes a graph, whose shapes are known, given the names of its inputs.
std::vector<std::string> write_graph(const graph::Graph& graph, Builder& builder,
                                     const std::vector<std::string>& inputs);

// Why an operator that has neither a writer nor parts is not written.
std::string reason_of(const OpDef& op);

}  // namespace kaon::onnx::exporting

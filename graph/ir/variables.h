// The variables of a program.
#pragma once

#include <vector>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::graph {

enum class VariableKind { argument, auxiliary, any };
// Depth first, without constants. Auxiliary states are those that an operator updates.
std::vector<SymbolNode*> variables(const std::vector<SymbolEntry>& heads, VariableKind kind);

// Whether the operator of the node updates the input.
bool updates(const SymbolNode& node, size_t input);

}  // namespace kaon::graph

// Symbols as JSON text, in the layout of MXNet's own writer.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/files/symbol_file.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/symbol.h"

namespace kaon::graph {

// The JSON text of the graph that ends in `heads`. `info`: of the file that it was loaded from, or nullptr.
// Throws ValueError naming a node that MXNet's format cannot hold: a constant, or an operator that MXNet lacks.
std::string write_symbol(const std::vector<SymbolEntry>& heads, const SymbolFileInfo* info);

}  // namespace kaon::graph

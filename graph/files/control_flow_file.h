// Control flow in symbol files: nodes with "subgraphs", as MXNet's contrib.foreach, while_loop and cond make them.
#pragma once

#include "kaon/graph/files/symbol_file.h"

namespace kaon::graph {

// The variables of a subgraph, depth first from its heads: the order in which MXNet counts its inputs.
std::vector<uint32_t> subgraph_variables(const SymbolFile& subgraph);

// Gives node `index`, one of control flow with resolved subgraphs, its attributes, and its inputs the order of Kaon's
// operator. `variables`: of its subgraphs, as the file has them. Throws IoError naming the node.
void read_control_flow(SymbolFile& file, size_t index, const std::vector<std::vector<uint32_t>>& variables);

// Such a node as MXNet writes it.
struct WrittenControlFlow {
  std::map<std::string, std::string> attrs;
  std::vector<size_t> order;  // which of the node's inputs the file lists
  std::vector<Subgraph> subgraphs;
};
// Throws ValueError naming the node if MXNet's format cannot hold it.
WrittenControlFlow write_control_flow(const SymbolNode& node);

// Nodes with inputs before their users, each node's inputs in the order of the file.
// `loops`: filled for the nodes of control flow among them.
using WrittenLoops = std::unordered_map<const SymbolNode*, WrittenControlFlow>;
std::vector<SymbolNode*> written_order(const std::vector<SymbolEntry>& heads, WrittenLoops& loops);

}  // namespace kaon::graph

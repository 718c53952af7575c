#include "kaon/mxnet/node/copy_graph.h"

#include <unordered_map>

namespace kaon::mxnet {

namespace {

NodePtr copy_of(const SymbolNode& node) {
  NodePtr copy = graph::make_node(node.op, node.name);
  copy->op_name = node.op_name;
  copy->attrs = node.attrs;
  copy->text_attrs = node.text_attrs;
  copy->outputs = node.outputs;
  copy->constant = node.constant;
  copy->subgraphs = node.subgraphs;
  copy->is_detached = node.is_detached;
  return copy;
}

}  // namespace

Symbol copy_graph(const Symbol& symbol) {
  std::unordered_map<const SymbolNode*, NodePtr> copies;
  const auto mapped = [&](const SymbolEntry& e) { return SymbolEntry{copies.at(e.node.get()), e.output}; };
  // in the order of creation, which is that of the random numbers
  for (const SymbolNode* n : graph::creation_order(symbol.entries())) {
    NodePtr copy = copy_of(*n);
    for (const SymbolEntry& e : n->inputs) copy->inputs.push_back(mapped(e));
    copies[n] = std::move(copy);
  }
  std::vector<SymbolEntry> heads;
  for (const SymbolEntry& e : symbol.entries()) heads.push_back(mapped(e));
  return Symbol(std::move(heads));
}

}  // namespace kaon::mxnet

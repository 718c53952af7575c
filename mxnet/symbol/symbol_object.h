// SymbolObject: what a SymbolHandle points to.
#pragma once

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/symbol.h"
#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

// A symbol. Its nodes are shared with the symbols that it was made from: an attribute that is set through one handle is
// seen through the others. A symbol without outputs exists too: the children of a variable.
// Nodes hold their attributes as the program's texts (SymbolNode::text_attrs); of a variable, `__shape__` and
// `__dtype__` are also in the node's outputs[0], with -1 for a dimension that is not known.
struct SymbolObject : Counted<SymbolObject> {
  explicit SymbolObject(Symbol symbol = {}) : symbol(std::move(symbol)) {}
  Symbol symbol;
};

// The object behind a handle. Throws ValueError for a null handle.
SymbolObject& symbol_of(void* handle);

// The operator whose attribute `subgraph` is a program; composition puts the program in its place.
constexpr std::string_view program_op = "_CachedOp";
// That program, made anew. Throws ValueError where there is none, and as Symbol::load_json.
Symbol program_of(const graph::SymbolNode& node);

// The outputs and the nodes of a symbol, a text of several lines.
std::string describe(const Symbol& symbol);

}  // namespace kaon::mxnet

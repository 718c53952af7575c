// A symbol's graph in nodes of its own.
#pragma once

#include "kaon/engine/run_context.h"
#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

// replace(e) gives the entry that stands for e instead, or nullptr; change(copy) may change a node's attributes.
Symbol copy_graph(const Symbol& symbol, engine::FunctionRef<const SymbolEntry*(const SymbolEntry&)> replace,
                  engine::FunctionRef<void(const SymbolNode&, SymbolNode&)> change);
Symbol copy_graph(const Symbol& symbol);

}  // namespace kaon::mxnet

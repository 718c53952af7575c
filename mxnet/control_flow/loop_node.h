// Nodes of loops and conditions, from the subgraphs that programs give with their inputs.
#pragma once

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::mxnet {

// Gives `node`, a _foreach, _while_loop or _cond with its attributes, its operator and its inputs. `args`: its
// subgraphs (one; the condition and the body; the predicate and the branches), then its inputs in MXNet's order.
// Throws ValueError and IoError, which name the node, for a loop that Kaon cannot run.
void compose_loop(graph::SymbolNode& node, const std::vector<const Symbol*>& args);

}  // namespace kaon::mxnet

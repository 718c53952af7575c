// Layers that MXNet has fused for oneDNN in symbol files: nodes whose subgraph holds the attributes of the parts.
#pragma once

#include "kaon/graph/files/control_flow_file.h"
#include "kaon/graph/files/symbol_file.h"

namespace kaon::graph {

bool is_fused_layer(const OpDef& def);

// Gives node `index`, one with a resolved subgraph, its attributes. Throws IoError naming the node where the subgraph
// is no layer that Kaon knows.
void read_fused_layer(SymbolFile& file, size_t index);

// Such a node as MXNet writes it.
WrittenControlFlow write_fused_layer(const SymbolNode& node);

}  // namespace kaon::graph

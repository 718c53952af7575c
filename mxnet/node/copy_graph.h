// A symbol's graph in nodes of its own.
#pragma once

#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

Symbol copy_graph(const Symbol& symbol);

}  // namespace kaon::mxnet

// The symbol that an executor says it runs.
#pragma once

#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

// A copy in which operators of equal names, attributes and inputs are one node, as plans compute them once. An output
// that would then be another one is a copy of it.
Symbol without_equal_nodes(const Symbol& symbol);

}  // namespace kaon::mxnet

// Runs of a symbol node by node, as a program would call its operators: what monitors see.
#pragma once

#include <functional>
#include <span>

#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

// Called for each operator of a run, in order, with arrays that may not be computed yet. Null: nothing is called.
struct NodeMonitor {
  std::function<void(const SymbolNode&, std::span<NDArray> inputs)> before;  // may replace inputs
  std::function<void(const SymbolNode&, std::span<const NDArray> outputs)> after;
};

// `inputs`: of the variables `names`. Fills `outputs`. Recorded where autograd records. Throws as NDArray::apply, with
// the node's name.
void run_nodes(const Symbol& program, std::span<const std::string> names, std::span<const NDArray* const> inputs,
               std::span<NDArray> outputs, const NodeMonitor& monitor);

}  // namespace kaon::mxnet

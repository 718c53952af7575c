// How the outputs of a symbol are stored, by the storage of its variables.
#pragma once

#include <functional>
#include <span>

#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

struct OutputStorage {
  ops::StorageType storage = ops::StorageType::dense;
  // The variable whose elements it stores, zeros included; null: it stores what is not zero.
  const SymbolNode* pattern = nullptr;
};

// For each output, as MXNet infers it. `of_variable`: of those that have arrays.
std::vector<OutputStorage> output_storages(const Symbol& symbol,
                                           std::function<ops::StorageType(const SymbolNode&)> of_variable);

// Whether MXNet's gradient of the variable is row_sparse: it is the weight of an embedding that says so, or, where it
// is no embedding's weight, `otherwise`.
bool has_row_sparse_gradient(const Symbol& symbol, const SymbolNode& variable, bool otherwise);

}  // namespace kaon::mxnet

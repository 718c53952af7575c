#include "kaon/mxnet/executor/output_storage.h"

#include <algorithm>
#include <map>

#include "kaon/mxnet/call/result_storage.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

using ops::StorageType;

std::vector<OutputStorage> output_storages(const Symbol& symbol,
                                           std::function<StorageType(const SymbolNode&)> of_variable) {
  std::map<const SymbolNode*, OutputStorage> firsts;  // the other outputs are dense
  const auto of = [&](const SymbolEntry& e) { return e.output == 0 ? firsts.at(e.node.get()) : OutputStorage(); };
  for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
    OutputStorage& made = firsts[n];
    if (n->is_variable()) {
      if (!n->constant.defined()) made.storage = of_variable(*n);
      if (made.storage != StorageType::dense) made.pattern = n;
      continue;
    }
    const OperatorInfo* info = info_of(*n);
    std::vector<StorageType> inputs;
    for (const SymbolEntry& e : n->inputs) inputs.push_back(of(e).storage);
    const bool all_dense = std::ranges::all_of(inputs, [](StorageType s) { return s == StorageType::dense; });
    if (!info || (all_dense && info->name != "cast_storage")) continue;
    const OwnTexts texts(n->text_attrs.begin(), n->text_attrs.end());
    made.storage = result_storage(*info, texts, inputs);
    if (made.storage != StorageType::dense && keeps_pattern(*info, inputs)) made.pattern = of(n->inputs[0]).pattern;
  }
  std::vector<OutputStorage> outputs;
  for (const SymbolEntry& e : symbol.entries()) outputs.push_back(of(e));
  return outputs;
}

bool has_row_sparse_gradient(const Symbol& symbol, const SymbolNode& variable, bool otherwise) {
  for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
    if (n->inputs.size() != 2 || n->inputs[1].node.get() != &variable) continue;
    if (n->op == &op::SparseEmbedding::def) return true;
    if (n->op == &op::Embedding::def) return static_cast<const op::Embedding*>(n->attrs.get())->sparse_grad;
  }
  return otherwise;
}

}  // namespace kaon::mxnet

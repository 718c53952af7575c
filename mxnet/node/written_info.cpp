#include "kaon/mxnet/node/written_info.h"

#include <fmt/format.h>

#include <unordered_map>

#include "kaon/graph/files/control_flow_file.h"
#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

std::shared_ptr<const graph::SymbolFileInfo> written_info(const std::vector<SymbolEntry>& heads, bool numpy_shape) {
  auto info = std::make_shared<graph::SymbolFileInfo>();
  if (numpy_shape) info->attrs.emplace_back("is_np_shape", "[\"int\", 1]");
  info->attrs.emplace_back("mxnet_version", fmt::format("[\"int\", {}]", graph::written_mxnet_version));
  // A variable's version counts the operators that have updated it when it is read, the reader included.
  std::unordered_map<const SymbolNode*, uint32_t> updates;
  graph::WrittenLoops loops;
  for (const SymbolNode* n : graph::written_order(heads, loops)) {
    auto& node = info->nodes[n];
    node.outputs = uint32_t(counted_outputs(*n));
    for (size_t i = 0; i < n->inputs.size(); ++i) {
      const SymbolNode* input = n->inputs[i].node.get();
      const bool updated = n->op && ops::is_mutated(n->op->traits, int(i), int(n->inputs.size()));
      if (updated) ++updates[input];
      const auto it = updates.find(input);
      node.versions.push_back(it == updates.end() ? 0 : it->second);
    }
  }
  for (const SymbolEntry& e : heads) {
    const auto it = updates.find(e.node.get());
    info->head_versions.push_back(it == updates.end() ? 0 : it->second);
  }
  return info;
}

}  // namespace kaon::mxnet

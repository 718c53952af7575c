#include "kaon/graph/ir/variables.h"

#include <unordered_set>

#include "kaon/ops/custom/kernels/custom_family.h"

namespace kaon::graph {

bool updates(const SymbolNode& node, size_t input) {
  const size_t n = node.inputs.size();
  if (node.op != &op::Custom::def) return ops::is_mutated(node.op->traits, int(input), int(n));
  const auto& custom = *static_cast<const op::Custom*>(node.attrs.get());
  return input + size_t(ops::custom_signature(custom).updated) >= n;
}

namespace {
std::unordered_set<const SymbolNode*> auxiliary_variables(const std::vector<SymbolNode*>& order) {
  std::unordered_set<const SymbolNode*> aux;
  for (SymbolNode* n : order) {
    if (!n->op) continue;
    for (size_t i = 0; i < n->inputs.size(); ++i) {
      SymbolNode* v = n->inputs[i].node.get();
      if (v->is_variable() && updates(*n, i)) aux.insert(v);
    }
  }
  return aux;
}
}  // namespace

std::vector<SymbolNode*> variables(const std::vector<SymbolEntry>& heads, VariableKind kind) {
  auto order = topological_order(heads);
  auto aux = auxiliary_variables(order);
  std::vector<SymbolNode*> result;
  for (SymbolNode* n : order) {
    if (!n->is_variable() || n->constant.defined()) continue;
    if (kind == VariableKind::any || (kind == VariableKind::auxiliary) == bool(aux.count(n))) result.push_back(n);
  }
  return result;
}

}  // namespace kaon::graph

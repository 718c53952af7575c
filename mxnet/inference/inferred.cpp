#include "kaon/mxnet/inference/inferred.h"

#include <fmt/format.h>

#include "kaon/graph/ir/variables.h"

namespace kaon::mxnet {

std::vector<std::string> input_names(const Symbol& symbol, uint32_t n, const char** keys) {
  if (keys && n > 0 && !keys[0]) keys = nullptr;  // the list of no names that Python gives with positions
  const std::vector<std::string> candidates = keys ? symbol.list_inputs() : symbol.list_arguments();
  std::string listed;
  for (size_t i = 0; i < candidates.size(); ++i) listed += fmt::format("\n\t[{}]{}", i, candidates[i]);
  if (!keys) {
    if (n > candidates.size()) {
      throw ValueError(fmt::format("expected at most {} arguments, got {}: {}", candidates.size(), n, listed));
    }
    return {candidates.begin(), candidates.begin() + n};
  }
  std::vector<std::string> names;
  for (uint32_t i = 0; i < n; ++i) {
    if (!keys[i] || std::find(candidates.begin(), candidates.end(), keys[i]) == candidates.end()) {
      throw ValueError(
          fmt::format("argument name {} not found.\nCandidate arguments:{}", keys[i] ? keys[i] : "null", listed));
    }
    names.emplace_back(keys[i]);
  }
  return names;
}

template <class Known>
Inferred<Known> results(const Symbol& symbol, const graph::ByNode<Known>& found) {
  Inferred<Known> r;
  for (const auto* v : graph::variables(symbol.entries(), graph::VariableKind::argument)) {
    r.arguments.push_back(found.at(v)[0]);
  }
  for (const auto* v : graph::variables(symbol.entries(), graph::VariableKind::auxiliary)) {
    r.auxiliary_states.push_back(found.at(v)[0]);
  }
  for (const SymbolEntry& e : symbol.entries()) r.outputs.push_back(found.at(e.node.get())[e.output]);
  return r;
}
template Inferred<Shape> results(const Symbol&, const graph::ByNode<Shape>&);
template Inferred<std::optional<DType>> results(const Symbol&, const graph::ByNode<std::optional<DType>>&);

void throw_with_operator(const Error& error, const graph::SymbolNode* failed) {
  if (!failed) throw;
  throw ValueError(fmt::format("Error in operator {}: {}", failed->name, error.what()));
}

}  // namespace kaon::mxnet

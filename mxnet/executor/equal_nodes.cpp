#include "kaon/mxnet/executor/equal_nodes.h"

#include <map>
#include <set>
#include <tuple>

#include "kaon/mxnet/node/copy_graph.h"
#include "kaon/ops/elementwise/elementwise.h"

namespace kaon::mxnet {

namespace {

using Place = std::pair<const SymbolNode*, uint32_t>;
using Identity = std::tuple<std::string, std::map<std::string, std::string>, std::vector<Place>>;

Place place(const SymbolEntry& e) { return {e.node.get(), e.output}; }

bool may_be_merged(const SymbolNode& node) {
  if (!node.op || node.subgraphs || node.inputs.empty()) return false;
  const OpTraits& traits = node.op->traits_of(node.attrs.get());
  if (traits.random) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (ops::is_mutated(traits, int(i), int(node.inputs.size()))) return false;
  }
  return true;
}

SymbolEntry copied(const SymbolEntry& value) {
  const NodePtr copy = graph::make_node(&kaon::op::Copy::def, value.node->name + "_copy");
  copy->op_name = "_copy";
  copy->attrs = ops::Attributes(kaon::op::Copy::def);
  copy->inputs = {value};
  copy->outputs.resize(1);
  return {copy, 0};
}

}  // namespace

Symbol without_equal_nodes(const Symbol& symbol) {
  const Symbol whole = copy_graph(symbol);
  std::map<Identity, NodePtr> first;
  std::map<const SymbolNode*, NodePtr> stands_for;
  const auto merged = [&](SymbolEntry e) {
    if (const auto it = stands_for.find(e.node.get()); it != stands_for.end()) e.node = it->second;
    return e;
  };
  for (SymbolNode* n : graph::creation_order(whole.entries())) {
    for (SymbolEntry& e : n->inputs) e = merged(e);
    if (!may_be_merged(*n)) continue;
    std::vector<Place> inputs;
    for (const SymbolEntry& e : n->inputs) inputs.push_back(place(e));
    const auto [it, is_new] = first.emplace(Identity{n->op_name, n->text_attrs, std::move(inputs)}, NodePtr(n));
    if (!is_new) stands_for[n] = it->second;
  }
  std::vector<SymbolEntry> heads;
  std::set<Place> seen;
  for (const SymbolEntry& e : whole.entries()) {
    const SymbolEntry head = merged(e);
    heads.push_back(seen.insert(place(head)).second ? head : copied(head));
  }
  return Symbol(std::move(heads));
}

}  // namespace kaon::mxnet

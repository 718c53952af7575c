#include "kaon/ops/registry.h"

#include <unordered_map>

#include "kaon/ops/all_ops.h"

namespace kaon {

const std::vector<const OpDef*>& all_op_defs() {
  static const auto* defs = [] {
    auto* list = new std::vector<const OpDef*>;
    for_each_op([&]<class Op>() { list->push_back(&Op::def); });
    return list;
  }();
  return *defs;
}

const OpDef* find_op(std::string_view name) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const OpDef*>;
    for (const OpDef* d : all_op_defs()) {
      map->emplace(d->traits.name, d);
      for (int i = 0; i < d->traits.aliases.size(); ++i) map->emplace(d->traits.aliases[i], d);
    }
    return map;
  }();
  auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

}  // namespace kaon

#include "kaon/ops/operator/registry.h"

#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/operator/usual_name.h"

namespace kaon::ops {

const std::vector<const OpDef*>& all_op_defs() {
  static constinit MadeOnce<const std::vector<const OpDef*>> defs;
  return defs.get([] {
    auto* list = new std::vector<const OpDef*>;
    for_each_op([&]<class Op>() { list->push_back(&Op::def); });
    return list;
  });
}

const OpDef* find_op(std::string_view name) {
  using Names = std::unordered_map<std::string_view, const OpDef*>;
  static constinit MadeOnce<const Names> made;
  const Names& by_name = made.get([] {
    auto* map = new Names;
    for (const OpDef* d : all_op_defs()) {
      map->emplace(d->traits.name, d);
      for (int i = 0; i < d->traits.aliases.size(); ++i) map->emplace(d->traits.aliases[i], d);
    }
    return map;
  });
  auto it = by_name.find(usual_name(name));
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace kaon::ops

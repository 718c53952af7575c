#include "kaon/mxnet/table/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"
#include "kaon/mxnet/table/boolean_mask.h"
#include "kaon/mxnet/table/sparse_operators.h"
#include "kaon/ops/operator/op_attributes.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/ops/operator/usual_name.h"

namespace kaon::mxnet {

namespace {

constexpr std::string_view table =
#include "kaon/mxnet/table/operators.inc"
    ;

// The first part of `text` before `mark`, which is cut off with it.
std::string_view cut(std::string_view& text, std::string_view mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + mark.size());
  return part;
}

// Kaon's operator for one of the names.
const OpDef* find_def(const OperatorInfo& info) {
  const auto find = [](std::string_view name) {
    const OpDef* def = ops::find_op(name);
    return def ? def : ops::find_op(ops::usual_name(name));
  };
  for (const OpDef* own : {&BooleanMask::def, &SparseRetain::def, &SquareSum::def}) {
    if (info.name == own->name()) return own;
  }
  if (info.name == "_Native" || info.name == "_NDArray") return find("Custom");  // a program's operators too
  const OpDef* def = find(info.name);
  for (const std::string& alias : info.aliases) {
    if (!def) def = find(alias);
  }
  return def;
}

std::vector<OperatorInfo> read_table() {
  std::vector<OperatorInfo> operators;
  for (std::string_view rest = table; !rest.empty();) {
    std::string_view line = cut(rest, "\n");
    if (line.empty()) continue;
    if (line.starts_with("  *")) {
      operators.back().num_args_key = line.substr(3);
    } else if (line.starts_with("  ")) {
      line.remove_prefix(2);
      const bool is_listed = !line.starts_with("+");
      if (!is_listed) line.remove_prefix(1);
      const std::string_view name = cut(line, ": ");
      operators.back().arguments.push_back({std::string(name), std::string(line), is_listed});
    } else {
      OperatorInfo& added = operators.emplace_back();
      added.name = cut(line, " = ");
      while (!line.empty()) added.aliases.emplace_back(cut(line, " "));
    }
  }
  for (OperatorInfo& o : operators) {
    o.def = find_def(o);
    if (o.def) {
      const ops::Attributes defaults(*o.def);  // required attributes never count as defaults
      o.def->write(defaults.get(), [&](std::string_view name, const std::string& text, bool is_default) {
        if ((!is_default && text != "nan") || name == o.num_args_key) o.required.emplace_back(name);
      });
    }
    constexpr std::string_view broadcasts = "broadcast_";
    o.equal_shapes =
        o.def && o.def->name().starts_with(broadcasts) && !o.name.starts_with(broadcasts) && !o.name.starts_with("_np");
    for (const OperatorInfo::Argument& a : o.arguments) {
      if (!a.is_listed) continue;
      o.c_names.push_back(a.name.c_str());
      o.c_types.push_back(a.type.c_str());
      o.c_descriptions.push_back("");
    }
  }
  return operators;
}

}  // namespace

const OperatorInfo::Argument* OperatorInfo::argument(std::string_view argument_name) const {
  auto it =
      std::find_if(arguments.begin(), arguments.end(), [&](const Argument& a) { return a.name == argument_name; });
  return it == arguments.end() ? nullptr : &*it;
}

std::string_view OperatorInfo::Argument::default_text() const {
  constexpr std::string_view mark = "default=";
  const size_t at = type.find(mark);
  if (at == type.npos) return {};
  std::string_view text = std::string_view(type).substr(at + mark.size());
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') text = text.substr(1, text.size() - 2);
  return text;
}

int OperatorInfo::num_attributes() const {
  return int(std::count_if(arguments.begin(), arguments.end(), [](const Argument& a) { return !a.is_input(); }));
}

const std::vector<OperatorInfo>& all_operators() {
  static constinit engine::MadeOnce<const std::vector<OperatorInfo>> operators;
  return operators.get([] { return new std::vector<OperatorInfo>(read_table()); });
}

const OperatorInfo* find_operator(std::string_view name) {
  using Names = std::unordered_map<std::string_view, const OperatorInfo*>;
  static constinit engine::MadeOnce<const Names> made;
  const Names& names = made.get([] {
    auto* map = new Names;
    for (const OperatorInfo& o : all_operators()) {
      map->emplace(o.name, &o);
      for (const std::string& alias : o.aliases) map->emplace(alias, &o);
    }
    return map;
  });
  const auto it = names.find(name);
  return it == names.end() ? nullptr : it->second;
}

const std::vector<const char*>& operator_names() {
  static constinit engine::MadeOnce<const std::vector<const char*>> names;
  return names.get([] {
    auto* list = new std::vector<const char*>;
    for (const OperatorInfo& o : all_operators()) {
      list->push_back(o.name.c_str());
      for (const std::string& alias : o.aliases) list->push_back(alias.c_str());
    }
    return list;
  });
}

const OpDef& def_of(const OperatorInfo& info) {
  if (!info.def) throw ValueError(fmt::format("the operator '{}' is not provided by Kaon", info.name));
  return *info.def;
}

}  // namespace kaon::mxnet

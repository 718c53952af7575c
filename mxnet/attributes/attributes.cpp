#include "kaon/mxnet/attributes/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kaon/graph/files/attribute_rules.h"
#include "kaon/mxnet/attributes/other_texts.h"

namespace kaon::mxnet {

using namespace ops;

OwnTexts texts_of(int count, const char* const* keys, const char* const* values) {
  OwnTexts texts;
  texts.reserve(size_t(std::max(count, 0)));
  for (int i = 0; i < count; ++i) texts.emplace_back(keys[i], values[i]);
  return texts;
}

std::string_view find_text(Texts texts, std::string_view key) {
  for (const auto& [name, text] : texts) {
    if (name == key) return text;
  }
  return {};
}

bool is_hidden_attribute(std::string_view key) {
  return graph::is_hidden(key) || graph::ends_in_hidden_key(key) || key.ends_with("profiler_scope");
}

namespace {

using Argument = OperatorInfo::Argument;

// "axis: Shape or None, optional, default=None"
std::string describe(const OperatorInfo& info, std::string_view key) {
  const Argument* argument = info.argument(key);
  return argument ? argument->type : "nothing";
}

[[noreturn]] void refuse_unknown(const OperatorInfo& info, std::string_view key) {
  std::string known;
  for (const Argument& a : info.arguments) {
    if (!a.is_input()) known += fmt::format("\n{} : {}", a.name, a.type);
  }
  throw ValueError(
      fmt::format("Cannot find argument '{}' of {}, Possible Arguments:\n----------------{}", key, info.name, known));
}

bool is_same_value(std::string_view a, std::string_view b) {
  if (a == b) return true;
  double x = 0, y = 0;
  if (from_text(a, x) && from_text(b, y)) return x == y;
  bool yes = false, other = false;
  if (from_text(a, yes) && from_text(b, other)) return yes == other;
  IntTuple tuple, other_tuple;
  return from_text(a, tuple) && from_text(b, other_tuple) && tuple == other_tuple;
}

// Kaon's operator has no attribute of this name.
void check_skipped(const OperatorInfo& info, std::string_view key, std::string_view text) {
  if (info.num_attributes() == 0 || key == info.num_args_key) return;
  const Argument* argument = info.argument(key);
  if (!argument && key != "name") refuse_unknown(info, key);
  if (graph::may_be_ignored(key, text)) return;
  if (argument && is_same_value(text, argument->default_text())) return;
  throw ValueError(fmt::format("[{}] Kaon does not support {}={}", info.name, key, text));
}

}  // namespace

void refuse_text(const OperatorInfo& info, std::string_view key, std::string_view text) {
  throw ValueError(fmt::format("[{}] Invalid Parameter format for {}: expected {}, got '{}'", info.name, key,
                               describe(info, key), text));
}

Attributes read_attributes(const OperatorInfo& info, Texts texts, int num_inputs) {
  const OpDef& def = def_of(info);
  Attributes attributes(def);
  const std::map<std::string_view, std::string> other = other_texts(info, texts);
  for (const auto& [key, text] : other) def.read(attributes.edit(), key, text);
  for (const auto& [key, text] : texts) {
    if (is_hidden_attribute(key) || other.contains(key)) continue;
    const int result = def.read(attributes.edit(), key, text);
    if (result == 0) continue;
    if (result == 1) {
      check_skipped(info, key, text);
    } else if (const Argument* a = info.argument(key); text != "None" || !a || a->default_text() != "None") {
      refuse_text(info, key, text);
    }
  }
  for (const std::string& name : info.required) {
    if (other.contains(name) || std::ranges::any_of(texts, [&](const auto& t) { return t.first == name; })) continue;
    if (name == info.num_args_key) {
      if (num_inputs >= 0) def.read(attributes.edit(), name, std::to_string(num_inputs));
      continue;
    }
    // required here, optional in MXNet
    const Argument* argument = info.argument(name);
    const std::string_view other = argument ? argument->default_text() : std::string_view();
    if (!other.empty() && (other == "None" || def.read(attributes.edit(), name, other) == 0)) continue;
    throw ValueError(
        fmt::format("[{}] Required parameter {} is not presented: expected {}", info.name, name, describe(info, name)));
  }
  return attributes;
}

}  // namespace kaon::mxnet

// Names and attributes of nodes.
#include "kaon/mxnet/symbol/node_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// Attributes of scheduling and optimizers: programs name them without underscores.
constexpr std::string_view plain_keys[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};

bool is_plain(std::string_view key) {
  return std::find(std::begin(plain_keys), std::end(plain_keys), key) != std::end(plain_keys);
}

std::string hidden(std::string_view key) { return fmt::format("__{}__", key); }

// The node whose outputs the symbol is; nullptr: of none, or of several.
SymbolNode* node_of(const Symbol& symbol) {
  if (!symbol.defined()) return nullptr;
  SymbolNode* node = symbol.entries()[0].node.get();
  for (const SymbolEntry& e : symbol.entries()) {
    if (e.node.get() != node) return nullptr;
  }
  return node;
}

std::optional<std::string> attribute(const Symbol& symbol, const std::string& key) {
  const SymbolNode* node = node_of(symbol);
  if (!node) return std::nullopt;
  if (key == "name") return node->name;
  if (key == "op_name" && is_operator(*node)) return node->op_name;
  if (key == "_value_index") return std::to_string(symbol.entries()[0].output);
  auto it = node->text_attrs.find(key);
  if (it == node->text_attrs.end() && is_plain(key)) it = node->text_attrs.find(hidden(key));
  if (it == node->text_attrs.end()) return std::nullopt;
  return it->second;
}

// A variable's shape and dtype, of which its attributes tell.
void set_meta(SymbolNode& node, const std::string& key, const std::string& value) {
  TensorMeta& meta = node.outputs[0];
  if (key == "__shape__") {
    Shape shape;
    if (!ops::from_text(value, shape)) throw ValueError(fmt::format("expected a shape as '{}', got '{}'", key, value));
    const bool zero_is_size = has_numpy_shape();
    for (int i = 0; i < shape.ndim(); ++i) {
      if (shape[i] == 0 && !zero_is_size) shape[i] = -1;
      if (shape[i] < -1) throw ValueError(fmt::format("expected a shape as '{}', got '{}'", key, value));
    }
    const bool says_nothing = value == "None" || (shape.ndim() == 0 && !zero_is_size);
    meta.shape = says_nothing ? Shape::unknown() : shape;
  } else if (key == "__dtype__") {
    int64_t number = 0;
    if (!ops::from_text(value, number) || number < -1 || number > 127 ||
        (number >= 0 && !ops::is_valid(DType(number)))) {
      throw ValueError(fmt::format("expected the number of a dtype as '{}', got '{}'", key, value));
    }
    if (number >= 0) meta.dtype = DType(number);
  }
}

void set_attribute(const Symbol& symbol, const std::string& key, const std::string& value) {
  SymbolNode* node = node_of(symbol);
  if (!node) throw ValueError("attributes can be set for the outputs of one node only, not for a group");
  if (key == "name") {
    node->name = value;
    return;
  }
  const std::string stored = stored_key(key, value);
  if (!is_operator(*node)) {
    set_meta(*node, stored, value);
    node->text_attrs[stored] = value;
    return;
  }
  auto before = node->text_attrs;
  node->text_attrs[stored] = value;
  if (stored.starts_with("__")) return;
  try {
    read_again(*node);
  } catch (...) {
    node->text_attrs = std::move(before);
    throw;
  }
}

// Keys and values in turn; hidden keys under both of their names. `prefix` stands before each.
void append_attributes(const SymbolNode& node, const std::string& prefix, std::vector<std::string>& list) {
  for (const auto& [key, value] : node.text_attrs) {
    list.push_back(prefix + key);
    list.push_back(value);
    if (key.size() <= 4 || !key.starts_with("__") || !key.ends_with("__")) continue;
    const std::string plain = key.substr(2, key.size() - 4);
    if (!is_plain(plain)) continue;
    list.push_back(prefix + plain);
    list.push_back(value);
  }
}

void return_pairs(std::vector<std::string> list, uint32_t* size, const char*** out) {
  *size = uint32_t(list.size() / 2);
  returned().texts.set(std::move(list));
  *out = returned().texts.data();
}

}  // namespace

namespace kaon::mxnet {

std::string stored_key(std::string_view key, std::string_view value) {
  if (key.starts_with("__")) return std::string(key);
  for (std::string_view plain : plain_keys) {
    if (key == plain) return hidden(plain);
    if (!key.ends_with(plain)) continue;
    const std::string_view input = key.substr(0, key.size() - plain.size() - 1);
    throw ValueError(
        fmt::format("setting variable attributes with {} is deprecated. please instead use\nw = Variable({}={})\n"
                    "sym = YourSymbolName({}=w)",
                    key, plain, value, input));
  }
  return std::string(key);
}

}  // namespace kaon::mxnet

int MXSymbolGetName(SymbolHandle symbol, const char** out, int* success) {
  return MXSymbolGetAttr(symbol, "name", out, success);
}

int MXSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out, int* success) {
  return guard([&] {
    const auto value = attribute(symbol_of(symbol).symbol, key);
    *success = value ? 1 : 0;
    *out = nullptr;
    if (!value) return;
    returned().text = *value;
    *out = returned().text.c_str();
  });
}

int MXSymbolSetAttr(SymbolHandle symbol, const char* key, const char* value) {
  return guard([&] { set_attribute(symbol_of(symbol).symbol, key, value); });
}

int MXSymbolListAttr(SymbolHandle symbol, uint32_t* out_size, const char*** out) {
  return guard([&] {
    std::vector<std::string> list;
    for (const SymbolNode* node : graph::topological_order(symbol_of(symbol).symbol.entries())) {
      append_attributes(*node, node->name + "$", list);
    }
    return_pairs(std::move(list), out_size, out);
  });
}

int MXSymbolListAttrShallow(SymbolHandle symbol, uint32_t* out_size, const char*** out) {
  return guard([&] {
    const Symbol& s = symbol_of(symbol).symbol;
    std::vector<std::string> list;
    if (s.defined()) append_attributes(*s.entries()[0].node, "", list);
    return_pairs(std::move(list), out_size, out);
  });
}

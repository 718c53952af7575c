// From names and texts to operators and attributes, with the changes that older releases' files need.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "kaon/engine/error.h"
#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/attribute_rules.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/graph/files/fused_layer_file.h"
#include "kaon/graph/files/symbol_file.h"
#include "kaon/ops/custom/custom.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/ops/operator/usual_name.h"

namespace kaon::graph {

namespace {

// Attributes of scheduling and optimizers, which carry no underscores in old files.
constexpr std::string_view hidden_keys[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};

// "weight_lr_mult" gives {"weight", "lr_mult"}, "lr_mult" gives {"", "lr_mult"}.
struct OldHiddenKey {
  std::string_view input, key;
};
std::optional<OldHiddenKey> old_hidden_key(std::string_view name) {
  for (std::string_view key : hidden_keys) {
    if (!name.ends_with(key)) continue;
    const std::string_view before = name.substr(0, name.size() - key.size());
    if (before.empty()) return OldHiddenKey{"", key};
    if (before.size() > 1 && before.ends_with('_')) return OldHiddenKey{before.substr(0, before.size() - 1), key};
  }
  return std::nullopt;
}

}  // namespace

bool is_hidden(std::string_view key) { return key.size() >= 4 && key.starts_with("__") && key.ends_with("__"); }
bool ends_in_hidden_key(std::string_view key) { return old_hidden_key(key).has_value(); }

bool may_be_ignored(std::string_view key, std::string_view value) {
  struct Rule {
    std::string_view key, only;
  };
  static constexpr Rule rules[] = {
      {"workspace", ""},
      {"ctx", ""},
      {"is_int", ""},
      {"sparse_grad", ""},
      {"deterministic", ""},
      {"forward_stype", ""},
      {"stype", ""},
      {"lazy_update", ""},
      {"key_var_num_args", ""},
      {"min_calib_range", "None"},
      {"max_calib_range", "None"},
      {"output_mean_var", "False"},
      {"layout", "None"},
  };
  if (key.starts_with("cudnn_")) return true;
  return std::any_of(std::begin(rules), std::end(rules),
                     [&](const Rule& r) { return r.key == key && (r.only.empty() || r.only == value); });
}

namespace {

std::string hidden_name(std::string_view key) { return fmt::format("__{}__", key); }

// _zeros_without_dtype is _zeros, with the number of a dtype; -1 is the default.
void name_dtype_of_zeros(FileNode& node) {
  static constexpr std::string_view names[] = {"float32", "float64", "float16", "uint8",
                                               "int32",   "int8",    "int64",   "bool"};
  if (node.op != "_zeros_without_dtype") return;
  node.op = "_zeros";
  const auto it = node.text_attrs.find("dtype");
  if (it == node.text_attrs.end()) return;
  if (it->second == "-1") {
    node.text_attrs.erase(it);
  } else if (it->second.size() == 1 && it->second[0] >= '0' && it->second[0] < '0' + int(std::size(names))) {
    it->second = names[it->second[0] - '0'];
  }
}

// Pooling_v1 divides by the whole kernel where it reaches over the edge, and Pooling by what is inside.
void refuse_old_average(const SymbolFile& file, const FileNode& node) {
  const auto is = [&](const char* key, std::string_view value) {
    const auto it = node.text_attrs.find(key);
    return it != node.text_attrs.end() && it->second == value;
  };
  if (node.op == "Pooling_v1" && is("pool_type", "avg") && is("pooling_convention", "full")) {
    file.fail(fmt::format("node '{}': Pooling_v1 with pool_type avg and pooling_convention full is not known to Kaon",
                          node.name));
  }
}

void find_operators(SymbolFile& file) {
  std::string unknown;  // all unknown operators, so that converting a model shows the whole list
  std::set<std::string_view> seen;
  for (FileNode& node : file.nodes) {
    if (node.op == "null") continue;
    node.def = find_control_flow(node.op);
    if (node.def) continue;
    name_dtype_of_zeros(node);
    refuse_old_average(file, node);
    node.op = usual_name(node.op);
    node.def = find_op(node.op);
    if (node.def && node.def->traits.in_mxnet) continue;
    node.def = nullptr;
    if (unknown.size() > 1000 || !seen.insert(node.op).second) continue;
    unknown += fmt::format("{}operator '{}' of node '{}'", unknown.empty() ? "" : ", ", node.op, node.name);
  }
  if (!unknown.empty()) file.fail(unknown + (seen.size() == 1 ? " is not known to Kaon" : " are not known to Kaon"));
}

// Old keys get their underscores, and those about an input are moved to that variable.
void rename_hidden_keys(SymbolFile& file) {
  for (FileNode& node : file.nodes) {
    for (auto it = node.text_attrs.begin(); it != node.text_attrs.end();) {
      const auto old = old_hidden_key(it->first);
      FileNode* owner = nullptr;
      if (old && old->input.empty()) {
        owner = &node;
      } else if (old && node.def) {
        const Names& names = node.def->traits.inputs;
        for (int i = 0; i < names.size() && size_t(i) < node.inputs.size(); ++i) {
          FileNode& input = file.nodes[node.inputs[size_t(i)].node];
          if (names[i] == old->input && !input.def) owner = &input;
        }
      }
      if (!owner) {
        ++it;
        continue;
      }
      owner->text_attrs[hidden_name(old->key)] = it->second;
      it = node.text_attrs.erase(it);
    }
  }
}

// Until 0.9.4 an axis of -1 meant all axes.
void drop_arg_axis(SymbolFile& file) {
  for (FileNode& node : file.nodes) {
    if (!node.def || (node.def->name() != "argmax" && node.def->name() != "argmin")) continue;
    auto it = node.text_attrs.find("axis");
    if (it != node.text_attrs.end() && it->second == "-1") node.text_attrs.erase(it);
  }
}

void read_attributes(SymbolFile& file, size_t index) {
  FileNode& node = file.nodes[index];
  node.attrs = Attributes(*node.def);
  for (const auto& [key, value] : node.text_attrs) {
    if (is_hidden(key) || old_hidden_key(key)) continue;
    // MXNet looks at no attribute of an operator that has none, as the dtype that GluonCV gives zeros_like
    if (node.def->attrs_size == 0 && node.def->traits.in_mxnet) continue;
    const int result = node.def->read(node.attrs.edit(), key, value);
    if (result == 2) file.fail(index, fmt::format("attribute '{}' cannot be '{}'", key, value));
    if (result == 0 || may_be_ignored(key, value)) continue;
    if (key == "num_args" && node.def->traits.variadic && value == std::to_string(node.inputs.size())) continue;
    file.fail(index, fmt::format("attribute '{}' (with the value '{}') is not known to Kaon", key, value));
  }
  if (node.def == &op::Custom::def) {
    try {
      expect_custom_operator(static_cast<const op::Custom*>(node.attrs.get())->op_type.text);
    } catch (const ValueError& e) {
      file.fail(index, e.what());
    }
  }
  const Attributes defaults(*node.def);  // required attributes never count as defaults
  node.def->write(defaults.get(), [&](std::string_view name, const std::string& text, bool is_default) {
    if (is_default || text == "nan" || node.text_attrs.count(std::string(name))) return;
    file.fail(index, fmt::format("the attribute '{}' is missing", name));
  });
}

// Files before 0.9 leave out variables that follow by name, such as moving_mean.
void add_missing_inputs(SymbolFile& file, size_t index) {
  const int expected = file.nodes[index].def->num_inputs(file.nodes[index].attrs.get());
  const Names& names = file.nodes[index].def->traits.inputs;
  for (int i = int(file.nodes[index].inputs.size()); i < std::min(expected, names.size()); ++i) {
    FileNode variable;
    variable.op = "null";
    variable.name = fmt::format("{}_{}", file.nodes[index].name, names[i]);
    variable.text_attrs = file.nodes[index].text_attrs;
    file.nodes[index].inputs.push_back({.node = uint32_t(file.nodes.size())});
    file.nodes.push_back(std::move(variable));
  }
}

// Until 0.9.3 variables did not say how they begin.
void add_initializers(SymbolFile& file, const FileNode& node) {
  auto begin = [&](size_t input, const char* text) {
    if (input >= node.inputs.size()) return;
    FileNode& variable = file.nodes[node.inputs[input].node];
    if (!variable.def) variable.text_attrs.emplace("__init__", text);
  };
  if (node.def->name() == "BatchNorm") {
    begin(3, R"(["zero", {}])");
    begin(4, R"(["one", {}])");
  } else if (node.def->name() == "LeakyReLU" && node.inputs.size() > 1) {
    begin(1, R"(["Constant", {"value": 0.25}])");
  }
}

void check_counts(const SymbolFile& file, size_t index, size_t& budget) {
  const FileNode& node = file.nodes[index];
  const int expected = node.def->num_inputs(node.attrs.get());
  if (expected >= 0 && size_t(expected) != node.inputs.size()) {
    file.fail(index,
              fmt::format("takes {} inputs with these attributes, the file gives {}", expected, node.inputs.size()));
  }
  // A number of outputs is an attribute: it must not ask for more memory than the file could use.
  const int outputs = node.def->num_outputs(node.attrs.get());
  if (outputs < 1 || size_t(outputs) > budget) file.fail(index, fmt::format("cannot have {} outputs", outputs));
  budget -= size_t(outputs);
}

void resolve(SymbolFile& file, size_t& budget);

// A node with "subgraphs".
void resolve_nested(SymbolFile& file, size_t index, size_t& budget) {
  std::vector<std::vector<uint32_t>> variables;
  for (SymbolFile& sub : file.nodes[index].subgraphs) {
    // subgraphs exist since MXNet 1.3, whose files list every input
    sub.mxnet_version = std::max<int64_t>(file.mxnet_version, 10300);
    sub.numpy_shape = file.numpy_shape;
    variables.push_back(subgraph_variables(sub));
    resolve(sub, budget);
  }
  if (is_fused_layer(*file.nodes[index].def)) {
    read_fused_layer(file, index);
  } else {
    read_control_flow(file, index, variables);
  }
}

void resolve(SymbolFile& file, size_t& budget) {
  find_operators(file);
  rename_hidden_keys(file);
  if (file.mxnet_version < 905) drop_arg_axis(file);
  const size_t given = file.nodes.size();
  for (size_t i = 0; i < given; ++i) {
    const OpDef* const def = file.nodes[i].def;
    const bool is_nested = def && (is_control_flow(*def) || is_fused_layer(*def));
    if (!is_nested && !file.nodes[i].subgraphs.empty()) file.fail(i, "has \"subgraphs\", which Kaon cannot run");
    if (!file.nodes[i].def) continue;
    if (is_nested) {
      resolve_nested(file, i, budget);
      check_counts(file, i, budget);
      continue;
    }
    read_attributes(file, i);
    if (file.mxnet_version < 900) add_missing_inputs(file, i);
    if (file.mxnet_version < 904) add_initializers(file, file.nodes[i]);
    check_counts(file, i, budget);
  }
  auto check = [&](const FileEntry& e, size_t user, const char* what) {
    const FileNode& node = file.nodes[e.node];
    const int outputs = node.def ? node.def->num_outputs(node.attrs.get()) : 1;
    if (e.output >= uint32_t(outputs)) {
      file.fail(user, fmt::format("{} output {} of '{}', which has {}", what, e.output, node.name, outputs));
    }
  };
  for (size_t i = 0; i < file.nodes.size(); ++i) {
    for (const FileEntry& e : file.nodes[i].inputs) check(e, i, "uses");
    if (!file.nodes[i].def && !file.nodes[i].inputs.empty()) file.fail(i, "a variable cannot have inputs");
  }
  for (const FileEntry& e : file.heads) check(e, e.node, "\"heads\" names");
}

}  // namespace

void resolve_operators(SymbolFile& file) {
  size_t budget = file.bytes;
  resolve(file, budget);
}

}  // namespace kaon::graph

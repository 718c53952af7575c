#include "kaon/mxnet/node/operator_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/mxnet/attributes/attributes.h"
#include "kaon/ops/custom/kernels/custom_family.h"

namespace kaon::mxnet {

namespace {

// Outputs that have names of their own.
struct OutputNames {
  std::string_view op;
  std::string_view names[3];
};
constexpr OutputNames named_outputs[] = {
    {"BatchNorm", {"output", "mean", "var"}},
    {"BatchNorm_v1", {"output", "mean", "var"}},
    {"Dropout", {"output", "mask", ""}},
    {"GroupNorm", {"output", "mean", "std"}},
    {"InstanceNorm", {"output", "mean", "var"}},
    {"LRN", {"output", "tmp_norm", ""}},
    {"LayerNorm", {"output", "mean", "std"}},
    {"RNN", {"output", "state_output", "statecell_output"}},
    {"_contrib_BatchNormWithReLU", {"output", "mean", "var"}},
    {"_contrib_MultiBoxTarget", {"loc_target", "loc_mask", "cls_target"}},
    {"_contrib_SyncBatchNorm", {"output", "mean", "var"}},
    {"_contrib_calibrate_entropy", {"threshold", "divergence", ""}},
    {"_contrib_hawkesll", {"output", "out_state", ""}},
    {"_contrib_quantize_asym", {"output", "scale", "shift"}},
    {"make_loss", {"loss", "", ""}},
};
constexpr std::string_view quantized[] = {"output", "min_output", "max_output"};

std::string_view own_name(const SymbolNode& node, int output) {
  if (output >= 3) return {};
  if (node.op_name.starts_with("_contrib_quantized_")) return quantized[output];
  for (const OutputNames& n : named_outputs) {
    if (n.op == node.op_name) return n.names[output];
  }
  return {};
}

// Operators whose only visible output is "output0": MXNet numbers it for the hidden ones.
constexpr std::string_view numbered_alone[] = {"CTCLoss", "_contrib_box_nms", "_linalg_det", "sort"};

// Operators with other hidden outputs in MXNet than Kaon's have: how many there are in all.
struct OutputCount {
  std::string_view op;
  int count;
};
constexpr OutputCount counted[] = {
    {"BilinearSampler", 2},
    {"CTCLoss", 2},
    {"Correlation", 3},
    {"GridGenerator", 2},
    {"GroupNorm", 3},
    {"InstanceNorm", 3},
    {"IdentityAttachKLSparseReg", 1},
    {"L2Normalization", 2},
    {"LRN", 2},
    {"SpatialTransformer", 3},
    {"_contrib_BatchNormWithReLU", 4},
    {"_contrib_MultiProposal", 2},
    {"_contrib_Proposal", 2},
    {"_contrib_SyncBatchNorm", 3},
    {"_linalg_det", 3},
    {"_linalg_slogdet", 4},
    {"sort", 2},
};

// Operators of any number of inputs, which an attribute says; their names, which a number follows.
struct NumberedInputs {
  std::string_view op, count, name;
};
constexpr NumberedInputs numbered_inputs[] = {
    {"amp_multicast", "num_outputs", "data_"},
    {"multi_all_finite", "num_arrays", "array_"},
    {"multi_sum_sq", "num_arrays", "array_"},
};

const NumberedInputs* numbered_inputs_of(const SymbolNode& node) {
  for (const NumberedInputs& n : numbered_inputs) {
    if (n.op == node.op_name) return &n;
  }
  return nullptr;
}

bool has_true(const SymbolNode& node, const std::string& key) {
  const auto it = node.text_attrs.find(key);
  bool value = false;
  return it != node.text_attrs.end() && ops::from_text(it->second, value) && value;
}

}  // namespace

void check_composed(const Symbol& symbol) {
  for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
    if (is_operator(*n) && !n->op) throw ValueError(fmt::format("[{}] '{}' has no inputs yet", n->op_name, n->name));
  }
}

const CustomSignature* custom_signature_of(const SymbolNode& node) {
  const OperatorInfo* info = info_of(node);
  if (!info || info->def != &op::Custom::def || !node.attrs) return nullptr;
  return &ops::custom_signature(*static_cast<const op::Custom*>(node.attrs.get()));
}

const OperatorInfo* info_of(const SymbolNode& node) {
  return is_operator(node) ? find_operator(node.op_name) : nullptr;
}

int expected_inputs(const SymbolNode& node) {
  if (const CustomSignature* custom = custom_signature_of(node)) return int(custom->inputs.size());
  const OperatorInfo& info = *info_of(node);
  const int by_operator = def_of(info).num_inputs(node.attrs.get());
  const NumberedInputs* numbered = numbered_inputs_of(node);
  if (by_operator >= 0 || (info.num_args_key.empty() && !numbered)) return by_operator;
  const std::string key = numbered ? std::string(numbered->count) : info.num_args_key;
  const auto it = node.text_attrs.find(key);
  const OperatorInfo::Argument* argument = info.argument(key);
  std::string_view text = argument ? argument->default_text() : std::string_view();
  if (it != node.text_attrs.end()) text = it->second;
  int64_t count = 0;
  if (!ops::from_text(text, count) || count < 0 || count > 1 << 20) return -1;
  return int(count);
}

std::vector<std::string> input_names(const SymbolNode& node, int count) {
  if (const CustomSignature* custom = custom_signature_of(node)) return custom->inputs;
  std::vector<std::string> names;
  if (const NumberedInputs* numbered = numbered_inputs_of(node)) {
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", numbered->name, i));
    return names;
  }
  const OperatorInfo* info = info_of(node);
  if (!info || !info->num_args_key.empty()) {
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("arg{}", i));
    return names;
  }
  for (const OperatorInfo::Argument& a : info->arguments) {
    if (a.is_input()) names.push_back(a.name);
  }
  // The last ones are optional, but an attribute may ask for a later one and not for one before.
  for (size_t i = names.size(); i-- > 0 && names.size() > size_t(count);) {
    if (!has_true(node, "use_" + names[i])) names.erase(names.begin() + int64_t(i));
  }
  if (names.size() > size_t(count)) names.resize(size_t(count));
  // MXNet's old operators do not list the states that they update.
  const ops::Names& own = def_of(*info).traits.inputs;
  while (names.size() < size_t(count) && int(names.size()) < own.size()) names.emplace_back(own[int(names.size())]);
  return names;
}

// Operators of one array register no name for it, but for these; others register names.
bool lists_inputs(const SymbolNode& node) {
  static constexpr std::string_view named[] = {"Pooling", "LRN", "softmax", "log_softmax", "softmin", "Dropout"};
  const OperatorInfo* info = info_of(node);
  if (!info || node.inputs.size() != 1 || !info->num_args_key.empty()) return true;
  return std::find(std::begin(named), std::end(named), node.op_name) != std::end(named);
}

int visible_outputs(const SymbolNode& node) {
  if (!node.op || graph::is_control_flow(*node.op)) return node.num_outputs();
  return node.visible_outputs();
}

int counted_outputs(const SymbolNode& node) {
  const auto is = [&](const char* key, std::string_view value) {
    const auto it = node.text_attrs.find(key);
    return it != node.text_attrs.end() && it->second == value;
  };
  if (node.op_name == "Pooling" && !is("pool_type", "avg") && !is("pool_type", "sum") && !is("pool_type", "lp")) {
    return 2;  // a workspace
  }
  for (const OutputCount& c : counted) {
    if (c.op == node.op_name) return c.count;
  }
  return node.num_outputs();
}

std::string output_name(const SymbolNode& node, int output) {
  if (!is_operator(node)) return node.name;
  std::string name(own_name(node, output));
  if (const CustomSignature* custom = custom_signature_of(node)) name = custom->outputs.at(size_t(output));
  if (name.empty()) {
    const bool numbered = visible_outputs(node) != 1 || std::find(std::begin(numbered_alone), std::end(numbered_alone),
                                                                  node.op_name) != std::end(numbered_alone);
    name = numbered ? fmt::format("output{}", output) : "output";
  }
  return node.name.empty() ? name : fmt::format("{}_{}", node.name, name);
}

Symbol symbol_of_node(const NodePtr& node) {
  std::vector<SymbolEntry> entries;
  for (int i = 0; i < visible_outputs(*node); ++i) entries.push_back({node, uint32_t(i)});
  return Symbol(std::move(entries));
}

void read_again(SymbolNode& node) {
  const OperatorInfo* info = info_of(node);
  if (!info || (node.op && graph::is_control_flow(*node.op))) return;
  OwnTexts texts(node.text_attrs.begin(), node.text_attrs.end());
  ops::Attributes attrs = read_attributes(*info, texts, int(node.inputs.size()));
  const OpDef& def = def_of(*info);
  const int inputs = def.num_inputs(attrs.get());
  if (node.op &&
      ((inputs >= 0 && size_t(inputs) != node.inputs.size()) || def.num_outputs(attrs.get()) != node.num_outputs())) {
    throw ValueError(
        fmt::format("[{}] node '{}' would have other inputs or outputs with these attributes", info->name, node.name));
  }
  node.attrs = std::move(attrs);
}

void place_after_inputs(SymbolNode& node) {
  for (const SymbolEntry& e : node.inputs) {
    if (e.node->is_variable() || e.node->sequence < node.sequence) continue;
    node.sequence = graph::make_node(nullptr, "")->sequence;
    return;
  }
}

}  // namespace kaon::mxnet

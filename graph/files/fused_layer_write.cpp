// Nodes of fused layers for symbol files.
#include <fmt/format.h>

#include "kaon/graph/files/fused_layer_file.h"
#include "kaon/ops/all_ops.h"

namespace kaon::graph {
namespace {

// Makes the graph that a layer stands for.
class Maker {
 public:
  explicit Maker(std::string name) : name_(std::move(name)) {}

  template <class Op>
  void add(const Op& op, int variables) {
    IntrusivePtr<SymbolNode> node = make_node(&Op::def, fmt::format("{}_part{}", name_, parts_++));
    node->attrs = Attributes(Op::def, &op);
    node->op_name = Op::def.name();
    node->outputs.resize(size_t(Op::def.num_outputs(node->attrs.get())));
    if (last_.node) node->inputs.push_back(last_);
    for (int i = 0; i < variables; ++i) {
      auto variable = make_node(nullptr, fmt::format("{}_input{}", name_, variables_++));
      variable->outputs.resize(1);
      node->inputs.push_back({std::move(variable), 0});
    }
    last_ = {std::move(node), 0};
  }
  void add_sum() {
    add(op::BroadcastAdd(), 1);
    last_.node->op_name = "elemwise_add";
  }
  void add_activation(FusedKind kind, double alpha) {
    switch (kind) {
      case FusedKind::none: return;
      case FusedKind::relu: return add(op::Activation{.act_type = ActivationType::relu}, 0);
      case FusedKind::sigmoid: return add(op::Activation{.act_type = ActivationType::sigmoid}, 0);
      case FusedKind::softrelu: return add(op::Activation{.act_type = ActivationType::softrelu}, 0);
      case FusedKind::tanh: return add(op::Activation{.act_type = ActivationType::tanh}, 0);
      case FusedKind::clip: return add(op::Clip{.a_min = 0, .a_max = alpha}, 0);
      case FusedKind::leaky: return add(op::LeakyReLU{.act_type = LeakyType::leaky, .slope = alpha}, 0);
      case FusedKind::gelu: return add(op::LeakyReLU{.act_type = LeakyType::gelu}, 0);
      case FusedKind::abs: return add(op::Abs(), 0);
      case FusedKind::square: return add(op::Square(), 0);
      case FusedKind::sqrt: return add(op::Sqrt(), 0);
      case FusedKind::exp: return add(op::Exp(), 0);
    }
  }
  Subgraph result() { return {.heads = {last_}, .values = {}}; }

 private:
  std::string name_;
  int parts_ = 0, variables_ = 0;
  SymbolEntry last_;
};

template <class Op>
const Op& attributes(const SymbolNode& node) {
  return *static_cast<const Op*>(node.attrs.get());
}

using Texts = std::map<std::string, std::string>;

Subgraph make_conv(const SymbolNode& node, Texts& texts) {
  const auto& op = attributes<op::SgConv>(node);
  Maker maker(node.name);
  maker.add(op::Convolution{.kernel = op.kernel,
                            .stride = op.stride,
                            .dilate = op.dilate,
                            .pad = op.pad,
                            .num_filter = op.num_filter,
                            .num_group = op.num_group,
                            .no_bias = op.no_bias,
                            .layout = op.layout},
            op.no_bias ? 2 : 3);
  if (op.with_bn) maker.add(op::BatchNorm{.eps = op.eps, .fix_gamma = op.fix_gamma}, 4);
  maker.add_activation(op.act, op.act_alpha);
  if (op.with_sum) maker.add_sum();
  maker.add_activation(op.postsum_act, op.postsum_alpha);
  if (op.with_bn) texts["with_bn"] = "true";
  if (op.with_sum) texts["with_sum"] = "true";
  if (op.act != FusedKind::none) texts["with_act"] = "true";
  if (op.postsum_act != FusedKind::none) texts["with_postsum_act"] = "true";
  if (op.quantized) texts["quantized"] = "true";
  return maker.result();
}

Subgraph make_dense(const SymbolNode& node, Texts& texts) {
  const auto& op = attributes<op::SgFullyConnected>(node);
  Maker maker(node.name);
  maker.add(op::FullyConnected{.num_hidden = op.num_hidden, .no_bias = op.no_bias, .flatten = op.flatten},
            op.no_bias ? 2 : 3);
  maker.add_activation(op.act, op.act_alpha);
  if (op.act != FusedKind::none) texts["with_eltwise"] = "True";
  if (op.quantized) texts["quantized"] = "True";
  if (op.enable_float_output) texts["enable_float_output"] = "True";
  if (op.channel_wise_quantize) texts["channel_wise_quantize"] = "True";
  return maker.result();
}

}  // namespace

WrittenControlFlow write_fused_layer(const SymbolNode& node) {
  WrittenControlFlow out;
  for (size_t i = 0; i < node.inputs.size(); ++i) out.order.push_back(i);
  if (node.subgraphs) out.subgraphs = *node.subgraphs;
  if (!out.subgraphs.empty()) return out;  // the node's attributes are the file's too
  const bool is_conv = node.op == &op::SgConv::def;
  out.subgraphs.push_back(is_conv ? make_conv(node, out.attrs) : make_dense(node, out.attrs));
  node.op->write(node.attrs.get(), [&](std::string_view name, const std::string& text, bool is_default) {
    if (name.ends_with("_calib_range") && !is_default) out.attrs[std::string(name)] = text;
  });
  return out;
}

}  // namespace kaon::graph

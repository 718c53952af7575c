// Nodes of fused layers from symbol files.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/files/fused_layer_file.h"
#include "kaon/ops/all_ops.h"

namespace kaon::graph {
namespace {

// Attributes that say again what the subgraph holds, under the names of several releases, or what changes nothing.
bool is_known_flag(std::string_view key) {
  static constexpr std::string_view flags[] = {
      "with_act",          "with_bn",   "with_eltwise", "with_postsum_act",
      "with_postsum_relu", "with_relu", "with_sum",     "weight_channelwise_scale"};
  return std::find(std::begin(flags), std::end(flags), key) != std::end(flags);
}

class FusedLayerReader {
 public:
  FusedLayerReader(SymbolFile& file, size_t index) : file_(file), index_(index), sub_(file.nodes[index].subgraphs[0]) {}

  void run() {
    if (file_.nodes[index_].def == &op::SgConv::def) {
      read(op::SgConv(), [&](op::SgConv& op, const FileNode& n) { conv_part(op, n); });
    } else {
      read(op::SgFullyConnected(), [&](op::SgFullyConnected& op, const FileNode& n) { dense_part(op, n); });
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { file_.fail(index_, why); }

  template <class Op, class Part>
  void read(Op op, const Part& part) {
    const FileEntry* last = nullptr;  // each operator takes the result of the one before it
    FileEntry entry;
    for (uint32_t i : file_order(sub_, FileRoots::heads)) {
      const FileNode& n = sub_.nodes[i];
      if (!n.def) continue;
      const auto takes = [&](const FileEntry& e) { return last && e.node == last->node && e.output == last->output; };
      if (last && std::none_of(n.inputs.begin(), n.inputs.end(), takes)) {
        fail(fmt::format("its subgraph must be a chain, but '{}' does not use the result before it", n.name));
      }
      part(op, n);
      entry = {.node = i}, last = &entry;
    }
    if (!last) fail("its subgraph has no operator");
    for (const auto& [key, value] : file_.nodes[index_].text_attrs) {
      if (key.starts_with("__") || is_known_flag(key)) continue;
      const int result = Op::def.read(&op, key, value);
      if (result == 1) fail(fmt::format("attribute '{}' (with the value '{}') is not known to Kaon", key, value));
      if (result == 2) fail(fmt::format("attribute '{}' cannot be '{}'", key, value));
    }
    file_.nodes[index_].attrs = Attributes(Op::def, &op);
  }

  template <class Op>
  static const Op* attributes(const FileNode& n) {
    return n.def == &Op::def ? static_cast<const Op*>(n.attrs.get()) : nullptr;
  }

  // The activation that the node is, and its number.
  std::pair<FusedKind, double> activation(const FileNode& n) const {
    if (const auto* act = attributes<op::Activation>(n)) {
      switch (act->act_type) {
        case ActivationType::relu: return {FusedKind::relu, 0};
        case ActivationType::sigmoid: return {FusedKind::sigmoid, 0};
        case ActivationType::tanh: return {FusedKind::tanh, 0};
        case ActivationType::softrelu: return {FusedKind::softrelu, 0};
        case ActivationType::softsign: break;
      }
    } else if (const auto* clip = attributes<op::Clip>(n)) {
      if (clip->a_min == 0) return {FusedKind::clip, clip->a_max};
    } else if (const auto* leaky = attributes<op::LeakyReLU>(n)) {
      if (leaky->act_type == LeakyType::leaky) return {FusedKind::leaky, leaky->slope};
      if (leaky->act_type == LeakyType::gelu) return {FusedKind::gelu, 0};
    } else {
      static const std::pair<const OpDef*, FusedKind> kinds[] = {
          {&op::Relu::def, FusedKind::relu}, {&op::Sigmoid::def, FusedKind::sigmoid}, {&op::Tanh::def, FusedKind::tanh},
          {&op::Abs::def, FusedKind::abs},   {&op::Square::def, FusedKind::square},   {&op::Sqrt::def, FusedKind::sqrt},
          {&op::Exp::def, FusedKind::exp}};
      for (const auto& [def, kind] : kinds) {
        if (n.def == def) return {kind, 0};
      }
    }
    fail(fmt::format("has '{}' ({}) in its subgraph, which Kaon does not fuse", n.name, n.op));
  }

  void conv_part(op::SgConv& to, const FileNode& n) const {
    const bool is_summed = to.with_sum;
    if (const auto* conv = attributes<op::Convolution>(n)) {
      to.kernel = conv->kernel, to.stride = conv->stride, to.dilate = conv->dilate, to.pad = conv->pad;
      to.num_filter = conv->num_filter, to.num_group = conv->num_group;
      to.no_bias = conv->no_bias, to.layout = conv->layout;
    } else if (to.num_filter == 0) {
      fail(fmt::format("its subgraph must begin with a Convolution, got '{}' ({})", n.name, n.op));
    } else if (const auto* norm = attributes<op::BatchNorm>(n)) {
      if (to.with_bn || is_summed || to.act != FusedKind::none || norm->axis != 1)
        fail("its BatchNorm must follow the Convolution, along axis 1");
      to.with_bn = true, to.eps = norm->eps, to.fix_gamma = norm->fix_gamma;
    } else if (n.def == &op::BroadcastAdd::def) {
      if (is_summed) fail("has two sums in its subgraph");
      to.with_sum = true;
    } else {
      auto& kind = is_summed ? to.postsum_act : to.act;
      if (kind != FusedKind::none) fail("has two activations in a row in its subgraph");
      std::tie(kind, is_summed ? to.postsum_alpha : to.act_alpha) = activation(n);
    }
  }

  void dense_part(op::SgFullyConnected& to, const FileNode& n) const {
    if (const auto* dense = attributes<op::FullyConnected>(n)) {
      to.num_hidden = dense->num_hidden, to.no_bias = dense->no_bias, to.flatten = dense->flatten;
    } else if (to.num_hidden == 0) {
      fail(fmt::format("its subgraph must begin with a FullyConnected, got '{}' ({})", n.name, n.op));
    } else {
      if (to.act != FusedKind::none) fail("has two activations in a row in its subgraph");
      std::tie(to.act, to.act_alpha) = activation(n);
    }
  }

  SymbolFile& file_;
  size_t index_;
  const SymbolFile& sub_;
};

}  // namespace

bool is_fused_layer(const OpDef& def) { return &def == &op::SgConv::def || &def == &op::SgFullyConnected::def; }

void read_fused_layer(SymbolFile& file, size_t index) {
  if (file.nodes[index].subgraphs.size() != 1) {
    file.fail(index, fmt::format("needs one subgraph, the file gives {}", file.nodes[index].subgraphs.size()));
  }
  FusedLayerReader(file, index).run();
}

}  // namespace kaon::graph

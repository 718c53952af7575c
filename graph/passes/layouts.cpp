// Layout: which 4-D values lie in memory as (N, H, W, C), or in blocks of 16 channels.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

#include "kaon/graph/passes/passes.h"
#include "kaon/graph/passes/rewrite.h"
#include "kaon/graph/reorder.h"
#include "kaon/ops/nn/conv_winograd.h"

namespace kaon::passes {
namespace {

// How a node treats images: which inputs and outputs are images, and in which layout it gains.
struct ImageRule {
  bool handles = false;           // works in any layout, all images alike,
  bool blocks = false;            // blocked16 included
  std::optional<Layout> prefers;  // none: as its images lie
  uint32_t inputs = 0, outputs = 0;
};

bool is_image(const TensorMeta& m) { return m.shape.ndim() == 4 && m.dtype == DType::float32 && m.shape.size() > 0; }

bool takes_winograd(const Graph& g, const Node& n) {
  if (n.op != &Convolution::def || !is_image(n.outputs[0]) || !is_image(g.meta(n.inputs[0]))) return false;
  const Convolution& op = attributes<Convolution>(n);
  return winograd_pays(make_geometry(g.meta(n.inputs[0]).shape, n.outputs[0].shape, op.kernel, op.stride, op.dilate,
                                     op.pad, op.num_group));
}

// `preferred`: the layout of convolutions, where it can be.
ImageRule rule_of(const Graph& g, const Node& n, Layout preferred) {
  if (!n.op || !n.op->traits.any_layout || n.outputs.empty()) return {};
  std::string_view name = n.op->name();
  auto all_images = [&](uint32_t inputs, uint32_t outputs) {
    for (uint32_t i = 0; i < n.inputs.size(); ++i) {
      if ((inputs >> i & 1) && !is_image(g.meta(n.inputs[i]))) return false;
    }
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      if ((outputs >> k & 1) && !is_image(n.outputs[k])) return false;
    }
    return true;
  };
  struct Named {
    std::string_view name;
    uint32_t inputs, outputs;
    bool blocks = false;
  };
  // Weights and statistics are no images.
  constexpr int64_t enough_channels = 16;  // with fewer the vector units are better fed by rows of pixels
  static constexpr Named table[] = {
      {"Convolution", bit(0), bit(0), true},
      {"_backward_Convolution_data", bit(0) | bit(2), bit(0)},
      {"_backward_Convolution_weight", bit(0) | bit(1), 0},
      {"Pooling", bit(0), bit(0), true},
      {"_backward_Pooling", bit(0) | bit(1) | bit(2), bit(0)},
      {"BatchNorm", bit(0), bit(0)},
      {"_backward_BatchNorm", bit(0) | bit(1), bit(0)},
  };
  for (Named t : table) {
    if (t.name != name) continue;
    if (n.op == &Convolution::def && attributes<Convolution>(n).fused.addend) {
      t.inputs |= bit(int(n.inputs.size()) - 1);
    }
    if (!all_images(t.inputs, t.outputs)) return {};
    // The images that come from outside: the kernel brings their few channels in, and gives channels-last ones.
    if (n.op == &Convolution::def && g.meta(n.inputs[0]).shape[1] <= 4) t.inputs &= ~bit(0);
    bool prefers = name.find("Convolution") != name.npos;
    auto look_at = [&](const TensorMeta& m) {
      prefers = prefers && m.shape[1] >= enough_channels;
      t.blocks = t.blocks && m.shape[1] % 16 == 0;
    };
    for (uint32_t i = 0; i < n.inputs.size(); ++i) {
      if (t.inputs >> i & 1) look_at(g.meta(n.inputs[i]));
    }
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      if (t.outputs >> k & 1) look_at(n.outputs[k]);
    }
    ImageRule rule{true, t.blocks, std::nullopt, t.inputs, t.outputs};
    if (prefers) rule.prefers = t.blocks ? preferred : Layout::channels_last;
    return rule;
  }
  // Elementwise operators: every array an image of one shape.
  for (ValueId v : n.inputs) {
    if (!is_image(g.meta(v)) || !(g.meta(v).shape == n.outputs[0].shape)) return {};
  }
  for (const TensorMeta& m : n.outputs) {
    if (!is_image(m) || !(m.shape == n.outputs[0].shape)) return {};
  }
  const bool blocks = n.outputs[0].shape[1] % 16 == 0;
  return {true, blocks, std::nullopt, (1u << n.inputs.size()) - 1, (1u << n.outputs.size()) - 1};
}

}  // namespace

Graph layouts(Graph g, bool winograd) {
  bool any = false;
  Layout preferred = Layout::channels_last;
  for (const Node& n : g.nodes) {
    any = any || (n.op && n.op->name() == "Convolution" && rule_of(g, n, preferred).prefers);
    if (winograd && takes_winograd(g, n)) preferred = Layout::blocked16;
  }
  if (!any) return g;

  Graph out;
  std::vector<uint32_t> number(g.nodes.size());
  std::map<std::tuple<uint32_t, uint32_t, Layout>, ValueId> reordered;  // value of `out`, layout -> the same in it
  auto layout_of = [&](ValueId v) {
    const Node& n = out.nodes[v.node];
    return v.output < n.layouts.size() ? n.layouts[v.output] : Layout::row_major;
  };
  auto in_layout = [&](ValueId v, Layout wanted, Phase phase) {
    if (layout_of(v) == wanted) return v;
    auto [it, is_new] = reordered.try_emplace({v.node, v.output, wanted});
    if (is_new) {
      Node r;
      r.op = &Reorder::def;
      const Reorder none{};
      r.attrs = Attributes(Reorder::def, &none);
      r.name = fmt::format("{}_reorder", out.nodes[v.node].name);
      r.inputs = {v};
      r.outputs = {out.meta(v)};
      r.layouts = {wanted};
      // A forward value that only the backward wants in this layout is reordered there.
      r.phase = phase;
      it->second = out.add(std::move(r));
      reordered[{it->second.node, 0, layout_of(v)}] = v;
    } else if (out.nodes[it->second.node].phase == Phase::backward && phase == Phase::forward) {
      out.nodes[it->second.node].phase = Phase::forward;
    }
    return it->second;
  };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node n = g.nodes[i];
    ImageRule rule = rule_of(g, g.nodes[i], preferred);
    for (ValueId& v : n.inputs) v = {number[v.node], v.output};
    Layout layout = rule.prefers.value_or(Layout::row_major);
    if (rule.handles && !rule.prefers) {  // as its largest image lies
      int64_t largest = -1;
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        if (!(rule.inputs >> k & 1) || out.meta(n.inputs[k]).shape.size() <= largest) continue;
        largest = out.meta(n.inputs[k]).shape.size();
        layout = layout_of(n.inputs[k]);
      }
      if (layout == Layout::blocked16 && !rule.blocks) layout = Layout::channels_last;
    }
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      bool image = rule.handles && (rule.inputs >> k & 1);
      n.inputs[k] = in_layout(n.inputs[k], image ? layout : Layout::row_major, n.phase);
    }
    if (layout != Layout::row_major) {
      n.layouts.assign(n.outputs.size(), Layout::row_major);
      for (uint32_t k = 0; k < n.outputs.size(); ++k) {
        if (rule.outputs >> k & 1) n.layouts[k] = layout;
      }
    }
    number[i] = out.add(std::move(n)).node;
  }
  for (uint32_t i : g.inputs) out.inputs.push_back(number[i]);
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    ValueId v{number[g.outputs[i].node], g.outputs[i].output};
    out.outputs.push_back(
        in_layout(v, Layout::row_major, i < g.num_forward_outputs ? Phase::forward : Phase::backward));
  }
  out.num_forward_outputs = g.num_forward_outputs;
  return out;
}

}  // namespace kaon::passes

// Layout: which 4-D values are stored as (N, H, W, C), or in blocks of 16 channels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>

#include "kaon/engine/device/backend.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/min_sum_elimination.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan_ops/reorder.h"
#include "kaon/ops/kernels/as_float32.h"

namespace kaon::graph::passes {
namespace {

// How a node treats images: which inputs and outputs are images, and whether it gains by channels last.
struct ImageRule {
  bool handles = false;        // works in any layout, all images alike,
  bool blocks = false;         // blocked16 included
  bool costs = false;          // its time depends on the layout
  bool channels_last = false;  // it should work in that; else in its images' layout
  uint32_t inputs = 0, outputs = 0;

  bool reads(size_t input) const { return handles && (inputs >> input & 1); }
  bool writes(size_t output) const { return handles && (outputs >> output & 1); }
};

// The preferences of a device's kernels.
struct ImageKernels {
  bool on_gpu = false;
  bool tf32 = false;  // float32 uses tensor cores there

  // On the CPU float32 and, with `levels`, bytes; on a GPU the dtypes of tensor cores, which read channels last.
  bool take(DType t, bool levels) const {
    if (on_gpu) return is_half(t) || (tf32 && t == DType::float32);
    return t == DType::float32 || (levels && (t == DType::int8 || t == DType::uint8));
  }
  bool take(const TensorMeta& m, bool levels) const {
    return m.shape.ndim() == 4 && take(m.dtype, levels) && m.shape.size() > 0;
  }
};

// The rule of an operator that says which of its arrays are images.
ImageRule image_rule(const Graph& g, const Node& n, ImageUse use, const ImageKernels& kernels) {
  const int64_t enough_channels = kernels.on_gpu ? 1 : 16;  // with fewer vector units are better fed by rows of pixels
  const auto is_set = [](uint32_t bits, size_t i) { return (bits >> i & 1) != 0; };
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    if (is_set(use.inputs, i) && !kernels.take(g.meta(n.inputs[i]), use.levels)) return {};
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) {
    if (is_set(use.outputs, k) && !kernels.take(n.outputs[k], use.levels)) return {};
  }
  if (use.few_channels >= 0 && !kernels.on_gpu && g.meta(n.inputs[size_t(use.few_channels)]).shape[1] <= 4) {
    use.inputs &= ~bit(use.few_channels);
  }
  bool channels_last = use.prefers_channels_last, blocks = use.blocks && !kernels.on_gpu;
  const auto look_at = [&](const TensorMeta& m) {
    channels_last = channels_last && m.shape[1] >= enough_channels;
    blocks = blocks && m.shape[1] % 16 == 0 && m.dtype == DType::float32;
  };
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    if (is_set(use.inputs, i)) look_at(g.meta(n.inputs[i]));
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) {
    if (is_set(use.outputs, k)) look_at(n.outputs[k]);
  }
  return {true, blocks, true, channels_last, use.inputs, use.outputs};
}

ImageRule rule_of(const Graph& g, const Node& n, const ImageKernels& kernels) {
  if (!n.op || !n.op->traits.any_layout || n.outputs.empty()) return {};
  if (n.op->image_use) return image_rule(g, n, n.op->image_use(n.attrs.get()), kernels);
  // Elementwise operators: every array an image of one shape.
  bool blocks = !kernels.on_gpu && n.outputs[0].shape.ndim() == 4 && n.outputs[0].shape[1] % 16 == 0;
  for (ValueId v : n.inputs) {
    blocks = blocks && g.meta(v).dtype == DType::float32;
    if (!kernels.take(g.meta(v), true) || !(g.meta(v).shape == n.outputs[0].shape)) return {};
  }
  for (const TensorMeta& m : n.outputs) {
    blocks = blocks && m.dtype == DType::float32;
    if (!kernels.take(m, true) || !(m.shape == n.outputs[0].shape)) return {};
  }
  return {true, blocks, false, false, (1u << n.inputs.size()) - 1, (1u << n.outputs.size()) - 1};
}

using Rules = std::vector<ImageRule>;  // by node
using Chosen = std::vector<Layout>;    // by node: the layout of its images

Layout layout_of(const Rules& rules, const Chosen& chosen, ValueId v) {
  return rules[v.node].writes(v.output) ? chosen[v.node] : Layout::row_major;
}

// Channels last if a node gains by that, else the layout of its largest image.
Chosen by_rules(const Graph& g, const Rules& rules) {
  Chosen chosen(g.nodes.size(), Layout::row_major);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const ImageRule& rule = rules[i];
    if (!rule.handles) continue;
    if (rule.channels_last) {
      chosen[i] = Layout::channels_last;
      continue;
    }
    int64_t largest = -1;
    for (size_t k = 0; k < g.nodes[i].inputs.size(); ++k) {
      const ValueId v = g.nodes[i].inputs[k];
      if (!rule.reads(k) || g.meta(v).shape.size() <= largest) continue;
      largest = g.meta(v).shape.size();
      chosen[i] = layout_of(rules, chosen, v);
    }
  }
  return chosen;
}

Node reorder_of(const TensorMeta& image, std::string_view name, Layout to) {
  Node r;
  set_operator(r, op::Reorder{});
  r.name = fmt::format("{}_reorder", name);
  r.outputs = {image};
  r.layouts = {to};
  return r;
}

void set_layouts(Node& n, const ImageRule& rule, Layout layout) {
  if (layout == Layout::row_major) return;
  n.layouts.assign(n.outputs.size(), Layout::row_major);
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    if (rule.writes(k)) n.layouts[k] = layout;
  }
}

// The costs of all nodes and of the copies between them, by layout: choices are layouts, in their order.
struct Problem {
  std::vector<uint8_t> num_choices;
  std::vector<CostTable> tables;
  std::vector<std::array<uint8_t, 3>> variants;  // by node and layout
};

void add_node(Problem& p, const Graph& g, uint32_t i, const ImageRule& rule, KernelCosts& costs) {
  if (!rule.costs) return;
  CostTable table{{i}, {}};
  for (uint8_t l = 0; l < p.num_choices[i]; ++l) {
    Node n = g.nodes[i];
    set_layouts(n, rule, Layout(l));
    std::vector<KernelInput> inputs;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      inputs.push_back({g.meta(n.inputs[k]), rule.reads(k) ? Layout(l) : Layout::row_major, rule.reads(k)});
    }
    const KernelCost cost = costs.of(n, inputs);
    table.costs.push_back(cost.seconds);
    p.variants[i][l] = cost.variant;
  }
  p.tables.push_back(std::move(table));
}

// The copies of one value: one for each layout, other than its own, in which a node reads it.
void add_copies(Problem& p, ValueId v, bool has_layout, const TensorMeta& image, std::span<const uint32_t> readers,
                bool is_read_row_major, KernelCosts& costs) {
  constexpr size_t most_together = 8;  // readers of more layouts pay for each
  std::vector<double> seconds(9);
  for (uint8_t from = 0; from < (has_layout ? p.num_choices[v.node] : 1); ++from) {
    for (uint8_t to = 0; to < 3; ++to) {
      if (from == to || (to == uint8_t(Layout::blocked16) && image.shape[1] % 16 != 0)) continue;
      const KernelInput input{image, Layout(from), true};
      seconds[from * 3 + to] = costs.of(reorder_of(image, "", Layout(to)), std::span(&input, 1)).seconds;
    }
  }
  const auto add = [&](std::span<const uint32_t> some, bool row_major) {
    CostTable table;
    if (has_layout) table.variables.push_back(v.node);
    table.variables.insert(table.variables.end(), some.begin(), some.end());
    if (table.variables.empty()) return;
    std::vector<uint8_t> now(table.variables.size());
    for (bool is_last = false; !is_last;) {
      const uint8_t from = has_layout ? now[0] : 0;
      std::array<bool, 3> wanted{row_major, false, false};
      for (size_t i = has_layout; i < now.size(); ++i) wanted[now[i]] = true;
      double total = 0;
      for (size_t to = 0; to < 3; ++to) total += wanted[to] && to != from ? seconds[from * 3 + to] : 0;
      table.costs.push_back(total);
      is_last = true;
      for (size_t i = now.size(); i-- > 0 && is_last;) {
        is_last = ++now[i] == p.num_choices[table.variables[i]];
        if (is_last) now[i] = 0;
      }
    }
    p.tables.push_back(std::move(table));
  };
  if (readers.size() <= most_together) return add(readers, is_read_row_major);
  for (uint32_t r : readers) add(std::span(&r, 1), false);
  if (is_read_row_major) add({}, true);
}

Problem problem_of(const Graph& g, const Rules& rules, KernelCosts& costs) {
  Problem p;
  p.variants.resize(g.nodes.size());
  for (const ImageRule& r : rules) p.num_choices.push_back(!r.handles ? 1 : r.blocks ? 3 : 2);
  struct Readers {
    std::vector<uint32_t> nodes;
    bool row_major = false;
  };
  std::map<std::pair<uint32_t, uint32_t>, Readers> readers;  // of images
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    add_node(p, g, i, rules[i], costs);
    for (size_t k = 0; k < g.nodes[i].inputs.size(); ++k) {
      const ValueId v = g.nodes[i].inputs[k];
      Readers& r = readers[{v.node, v.output}];
      if (!rules[i].reads(k)) {
        r.row_major = true;
      } else if (r.nodes.empty() || r.nodes.back() != i) {
        r.nodes.push_back(i);
      }
    }
  }
  for (ValueId v : g.outputs) readers[{v.node, v.output}].row_major = true;
  for (const auto& [value, r] : readers) {
    const ValueId v{value.first, value.second};
    const bool has_layout = rules[v.node].writes(v.output);
    if (has_layout || !r.nodes.empty()) add_copies(p, v, has_layout, g.meta(v), r.nodes, r.row_major, costs);
  }
  return p;
}

// The layouts with which all takes the shortest time, and the kernels' variants. Those of the rules stay where nothing
// is clearly faster: times are not exact.
Chosen by_costs(Graph& g, const Rules& rules, KernelCosts& costs) {
  constexpr double clearly = 0.97;
  Chosen chosen = by_rules(g, rules);
  const Problem p = problem_of(g, rules, costs);
  std::vector<uint8_t> by_rule;
  for (Layout l : chosen) by_rule.push_back(uint8_t(l));
  std::vector<uint8_t> choices = min_sum_elimination(p.num_choices, p.tables, by_rule);
  if (cost_of(choices, p.num_choices, p.tables) > clearly * cost_of(by_rule, p.num_choices, p.tables)) {
    choices = std::move(by_rule);
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    chosen[i] = Layout(choices[i]);
    g.nodes[i].variant = p.variants[i][choices[i]];
  }
  return chosen;
}

}  // namespace

Graph layouts(Graph g, const Options& options, KernelCosts* costs) {
  ImageKernels kernels{.on_gpu = options.device.type == DeviceType::gpu};
  kernels.tf32 = kernels.on_gpu && gpu_tf32_allowed();
  Rules rules;
  for (const Node& n : g.nodes) rules.push_back(rule_of(g, n, kernels));
  const auto gains = [&](const ImageRule& r) { return costs ? r.costs : r.channels_last; };
  if (std::none_of(rules.begin(), rules.end(), gains)) return g;
  const Chosen chosen = costs ? by_costs(g, rules, *costs) : by_rules(g, rules);

  Graph out;
  std::vector<uint32_t> number(g.nodes.size());
  std::map<std::tuple<uint32_t, uint32_t, Layout>, ValueId> reordered;  // value of `out`, layout -> the same in it
  auto in_layout = [&](ValueId v, Layout wanted, Phase phase) {
    if (out.layout(v) == wanted) return v;
    auto [it, is_new] = reordered.try_emplace({v.node, v.output, wanted});
    if (is_new) {
      Node r = reorder_of(out.meta(v), out.nodes[v.node].name, wanted);
      r.inputs = {v};
      // A forward value that only the backward wants in this layout is reordered there.
      r.phase = phase;
      it->second = out.add(std::move(r));
      reordered[{it->second.node, 0, out.layout(v)}] = v;
    } else if (out.nodes[it->second.node].phase == Phase::backward && phase == Phase::forward) {
      out.nodes[it->second.node].phase = Phase::forward;
    }
    return it->second;
  };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node n = g.nodes[i];
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v{number[n.inputs[k].node], n.inputs[k].output};
      n.inputs[k] = in_layout(v, rules[i].reads(k) ? chosen[i] : Layout::row_major, n.phase);
    }
    set_layouts(n, rules[i], chosen[i]);
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

}  // namespace kaon::graph::passes

// Passes that drop, merge or copy nodes without looking at what they compute.
#include <algorithm>
#include <map>
#include <tuple>

#include "kaon/graph/passes/passes.h"

namespace kaon::passes {
namespace {

bool updates_inputs(const Node& n) { return n.op && n.op->traits.mutates != 0; }

// The value whose memory this one lies in, through views.
ValueId root(const Graph& g, ValueId v) {
  while (g.nodes[v.node].op && g.nodes[v.node].op->traits.view) v = g.nodes[v.node].inputs[0];
  return v;
}

// By node: does an operator update it? What reads it depends on when it does.
std::vector<bool> updated_nodes(const Graph& g) {
  std::vector<bool> updated(g.nodes.size(), false);
  for (const Node& n : g.nodes) {
    if (!updates_inputs(n)) continue;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (is_mutated(n.op->traits, int(i), int(n.inputs.size()))) updated[root(g, n.inputs[i]).node] = true;
    }
  }
  return updated;
}

// Rebuilds a graph keeping chosen nodes and replacing values.
Graph rebuild(const Graph& g, const std::vector<bool>& keep,
              const std::map<std::pair<uint32_t, uint32_t>, ValueId>& replace) {
  Graph out;
  std::vector<uint32_t> number(g.nodes.size());
  auto mapped = [&](ValueId v) {
    // replacements refer to earlier nodes, possibly replaced themselves
    for (auto it = replace.find({v.node, v.output}); it != replace.end(); it = replace.find({v.node, v.output}))
      v = it->second;
    return ValueId{number[v.node], v.output};
  };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!keep[i]) continue;
    Node n = g.nodes[i];
    for (ValueId& v : n.inputs) v = mapped(v);
    number[i] = out.add(std::move(n)).node;
  }
  for (uint32_t i : g.inputs) out.inputs.push_back(number[i]);
  for (ValueId v : g.outputs) out.outputs.push_back(mapped(v));
  out.num_forward_outputs = g.num_forward_outputs;
  return out;
}

}  // namespace

Graph own_outputs(Graph g) {
  std::vector<ValueId> taken;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    ValueId v = g.outputs[i], r = root(g, v);
    bool own = g.nodes[r.node].op && !(r != v) && std::find(taken.begin(), taken.end(), r) == taken.end();
    if (own) {
      taken.push_back(r);
      continue;
    }
    Node copy;
    copy.op = &Copy::def;
    const Copy none{};
    copy.attrs = Attributes(Copy::def, &none);
    copy.name = g.nodes[v.node].name + "_copy";
    copy.inputs = {v};
    copy.outputs = {g.meta(v)};
    copy.phase = i < g.num_forward_outputs ? Phase::forward : Phase::backward;
    g.outputs[i] = g.add(std::move(copy));
  }
  return g;
}

Graph dead_code(Graph g) {
  std::vector<bool> needed(g.nodes.size(), false);
  for (ValueId v : g.outputs) needed[v.node] = true;
  for (uint32_t i : g.inputs) needed[i] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (updates_inputs(g.nodes[i])) needed[i] = true;
    if (!needed[i]) continue;
    for (ValueId v : g.nodes[i].inputs) needed[v.node] = true;
  }
  return rebuild(g, needed, {});
}

Graph common_subexpressions(Graph g) {
  std::map<std::pair<uint32_t, uint32_t>, ValueId> replace;
  std::vector<bool> keep(g.nodes.size(), true);
  auto mapped = [&](ValueId v) {
    auto it = replace.find({v.node, v.output});
    return it == replace.end() ? v : it->second;
  };
  const std::vector<bool> updated = updated_nodes(g);
  std::multimap<std::pair<const OpDef*, size_t>, uint32_t> seen;  // by operator and first input
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    if (!n.op || n.op->traits_of(n.attrs.get()).random || updates_inputs(n) || n.inputs.empty()) continue;
    for (ValueId& v : n.inputs) v = mapped(v);
    if (updated[i] ||
        std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return updated[root(g, v).node]; }))
      continue;
    std::pair<const OpDef*, size_t> key{n.op, n.inputs[0].node};
    auto [first, last] = seen.equal_range(key);
    auto same = std::find_if(first, last, [&](const auto& other) {
      const Node& o = g.nodes[other.second];
      return o.inputs == n.inputs && n.op->equal(o.attrs.get(), n.attrs.get());
    });
    if (same == last) {
      seen.emplace(key, i);
      continue;
    }
    keep[i] = false;
    for (uint32_t k = 0; k < n.outputs.size(); ++k) replace[{i, k}] = {same->second, k};
  }
  return rebuild(g, keep, replace);
}

Graph drop_dropout(Graph g, bool training) {
  std::map<std::pair<uint32_t, uint32_t>, ValueId> replace;
  std::vector<bool> keep(g.nodes.size(), true);
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (n.op != &Dropout::def || training) continue;
    if (static_cast<const Dropout*>(n.attrs.get())->mode == DropoutMode::always) continue;
    keep[i] = false;
    replace[{i, 0}] = n.inputs[0];
  }
  return rebuild(g, keep, replace);
}

Graph fuse_activation(Graph g) {
  auto uses = count_uses(g);
  std::map<std::pair<uint32_t, uint32_t>, ValueId> replace;
  std::vector<bool> keep(g.nodes.size(), true);
  auto activation_of = [](const Node& n) {
    if (n.op == &Relu::def) return FusedActivation::relu;
    if (n.op == &Activation::def && static_cast<const Activation*>(n.attrs.get())->act_type == ActivationType::relu) {
      return FusedActivation::relu;
    }
    return FusedActivation::none;
  };
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (!n.op || n.phase != Phase::forward) continue;
    FusedActivation activation = activation_of(n);
    if (activation == FusedActivation::none) continue;
    ValueId from = n.inputs[0];
    Node& producer = g.nodes[from.node];
    if (uses[from.node][from.output] != 1) continue;
    if (producer.op == &FullyConnected::def) {
      FullyConnected op = *static_cast<const FullyConnected*>(producer.attrs.get());
      if (op.fused != FusedActivation::none) continue;
      op.fused = activation;
      producer.attrs = Attributes(*producer.op, &op);
    } else if (producer.op == &Convolution::def) {
      Convolution op = *static_cast<const Convolution*>(producer.attrs.get());
      if (op.fused != FusedActivation::none) continue;
      op.fused = activation;
      producer.attrs = Attributes(*producer.op, &op);
    } else {
      continue;
    }
    keep[i] = false;
    replace[{i, 0}] = from;
  }
  return rebuild(g, keep, replace);
}

}  // namespace kaon::passes

// Passes that drop, merge or copy nodes, whatever their operators.
#include <algorithm>
#include <map>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"

namespace kaon::graph::passes {

Graph own_outputs(Graph g) {
  std::vector<ValueId> taken;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    ValueId v = g.outputs[i], r = root(g, v);
    const Phase phase = i < g.num_forward_outputs ? Phase::forward : Phase::backward;
    // a forward's call has no array for what a backward returns
    bool own = g.nodes[r.node].op && !(r != v) && g.nodes[r.node].phase == phase &&
               std::find(taken.begin(), taken.end(), r) == taken.end();
    if (own) {
      taken.push_back(r);
      continue;
    }
    Node copy;
    set_operator(copy, op::Copy{});
    copy.name = g.nodes[v.node].name + "_copy";
    copy.inputs = {v};
    copy.outputs = {g.meta(v)};
    copy.phase = phase;
    g.outputs[i] = g.add(std::move(copy));
  }
  return g;
}

Graph dead_code(Graph g, bool training) {
  std::vector<bool> needed(g.nodes.size(), false);
  for (ValueId v : g.outputs) needed[v.node] = true;
  for (uint32_t i : g.inputs) needed[i] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (updates_inputs(g.nodes[i], training)) needed[i] = true;
    if (!needed[i]) continue;
    for (ValueId v : g.nodes[i].inputs) needed[v.node] = true;
  }
  Rewriter out(g);
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    if (needed[i]) out.keep(i);
  }
  return out.finish();
}

namespace {

bool never(const Graph&, const Node&) { return false; }

// Would two equal nodes, merged, have another gradient than the sum of theirs? The gradient of an output layer does not
// depend on what arrives, so that one node gives it once. Where a floating result is stored in fewer bytes than an
// input, the sum of the heads would be rounded to the narrow dtype.
bool needs_own_gradient(const Graph& g, const Node& n) {
  if (n.op->traits_of(n.attrs.get()).ignores_head) return true;
  const DType dtype = n.outputs[0].dtype;
  auto is_wider = [&](ValueId v) { return size_of(g.meta(v).dtype) > size_of(dtype); };
  return is_floating(dtype) && std::any_of(n.inputs.begin(), n.inputs.end(), is_wider);
}

Graph merge_equal(Graph g, bool training, bool (*stays)(const Graph&, const Node&)) {
  const std::vector<bool> updated = updated_nodes(g, training);
  Rewriter out(g);
  std::multimap<std::pair<const OpDef*, uint32_t>, uint32_t> seen;  // nodes of `out` by operator and first input
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (!n.op || n.op->traits_of(n.attrs.get()).random || updates_inputs(n, training) || n.inputs.empty() ||
        updated[i] || reads_updated(g, n, updated) || stays(g, n)) {
      out.keep(i);
      continue;
    }
    Node now = out.copy(i);
    const std::pair key{n.op, now.inputs[0].node};
    auto [first, last] = seen.equal_range(key);
    auto same = std::find_if(first, last, [&](const auto& other) {
      const Node& o = out.node({other.second, 0});
      return o.inputs == now.inputs && n.op->equal(o.attrs.get(), n.attrs.get());
    });
    if (same == last) {
      out.replace(i, std::move(now));
      seen.emplace(key, out.now({i, 0}).node);
      continue;
    }
    std::vector<ValueId> values;
    for (uint32_t k = 0; k < n.outputs.size(); ++k) values.push_back({same->second, k});
    out.replace(i, std::move(values));
  }
  return out.finish();
}

}  // namespace

Graph common_subexpressions(Graph g, bool training) { return merge_equal(std::move(g), training, never); }

Graph common_subexpressions_before_gradient(Graph g, bool training) {
  return merge_equal(std::move(g), training, needs_own_gradient);
}

Graph drop_dropout(Graph g, bool training) {
  const std::vector<bool> updated = updated_nodes(g, training);
  const std::vector<std::vector<uint32_t>> uses = count_uses(g);
  Rewriter out(g);
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const bool idle =
        n.op == &op::Dropout::def && !training && attributes<op::Dropout>(n).mode == DropoutMode::training;
    if (!idle || reads_updated(g, n, updated)) {
      out.keep(i);
      continue;
    }
    std::vector<ValueId> now{out.now(n.inputs[0])};
    if (uses[i][1] > 0) {  // a gradient reads the mask, which drops nothing
      Node mask;
      set_operator(mask, op::Ones{.shape = n.outputs[1].shape, .dtype = n.outputs[1].dtype});
      mask.name = n.name + "_mask";
      mask.outputs = {n.outputs[1]};
      mask.phase = n.phase;
      now.push_back(out.add(std::move(mask)));
    }
    out.replace(i, std::move(now));
  }
  return out.finish();
}

}  // namespace kaon::graph::passes

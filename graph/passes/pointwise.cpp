// Pointwise fusion: groups of pointwise operators become one node each.
#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/passes/pointwise_target.h"

namespace kaon::graph::passes {
namespace {

constexpr uint32_t no_group = UINT32_MAX;

// How far fusion goes. It saves time but may cost memory: inputs live until the last of them is computed, and all
// outputs begin together.
enum class Reach {
  anywhere,    // members may be anywhere between two nodes that draw numbers or update something
  neighbours,  // members have only pointwise nodes, reductions, views and constants between them
  one_output,  // and only the last value is used outside
};

// Grows groups along the edges from a value to its readers. A group runs as one node, so no path may leave it and come
// back; it has one phase, shape and layout, and no node across which nothing may be moved is inside it.
class Grouping {
 public:
  Grouping(const Graph& graph, const PointwiseTarget& target, Reach reach)
      : graph_(graph),
        target_(target),
        reach_(reach),
        uses_(count_uses(graph)),
        group_of_(graph.nodes.size(), no_group) {
    uint32_t section = 0;
    std::vector<uint32_t> reductions;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& n = graph.nodes[i];
      const bool computes = target.computes(graph, n), reduces = target.reduces(graph, n);
      if (n.op && !n.op->traits.view && !computes && !reduces) {
        const OpTraits& traits = n.op->traits_of(n.attrs.get());
        section += reach != Reach::anywhere || traits.random || traits.mutates;
      }
      section_.push_back(section);
      if (computes) add(i);
      if (reduces) reductions.push_back(i);
    }
    for (uint32_t r : reductions) add_reduction(r);
  }

  // The group of node i if it has several members, else null.
  const std::vector<uint32_t>* group(uint32_t i) const {
    return group_of_[i] != no_group && groups_[group_of_[i]].size() > 1 ? &groups_[group_of_[i]] : nullptr;
  }
  const std::vector<std::vector<uint32_t>>& uses() const { return uses_; }

 private:
  void add(uint32_t i) {
    group_of_[i] = uint32_t(groups_.size());
    groups_.push_back({i});
    for (ValueId v : graph_.nodes[i].inputs) {
      const uint32_t from = group_of_[v.node], own = group_of_[i];
      if (from != no_group && from != own && fit(v.node, i) && join(from, groups_[own])) groups_[own].clear();
    }
  }

  // Adds a reduction of a member's value, but not one of another reduction's result. No member may depend on it.
  void add_reduction(uint32_t i) {
    const uint32_t from = graph_.nodes[i].inputs[0].node, g = group_of_[from];
    if (g == no_group || !target_.computes(graph_, graph_.nodes[from]) || !moves_together(from, i)) return;
    for (uint32_t m : groups_[g]) {
      for (ValueId v : graph_.nodes[m].inputs) {
        if (v.node == i) return;
      }
    }
    const uint32_t one[] = {i};
    join(g, one);
  }

  bool moves_together(uint32_t a, uint32_t b) const {
    return graph_.nodes[a].phase == graph_.nodes[b].phase && section_[a] == section_[b];
  }
  bool fit(uint32_t a, uint32_t b) const {
    return moves_together(a, b) && graph_.meta({a, 0}).shape == graph_.meta({b, 0}).shape &&
           graph_.layout({a, 0}) == graph_.layout({b, 0});
  }

  // False: they stay apart.
  bool join(uint32_t a, std::span<const uint32_t> others) {
    std::vector<uint32_t> members;
    std::merge(groups_[a].begin(), groups_[a].end(), others.begin(), others.end(), std::back_inserter(members));
    if (!is_convex(members)) return false;
    const auto outputs = target_.num_outputs(graph_, members, uses_);
    if (!outputs || (reach_ == Reach::one_output && *outputs > 1)) return false;
    for (uint32_t m : members) group_of_[m] = a;
    if (groups_[a].size() < 2) large_.push_back(a);
    groups_[a] = std::move(members);
    return true;
  }

  // The last place up to `at` that no group spans: nodes before it read nothing after it.
  uint32_t seam(uint32_t at) const {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t g : large_) {
        const auto& other = groups_[g];
        if (other.empty() || other.front() >= at || other.back() < at) continue;
        at = other.front();
        moved = true;
      }
    }
    return at;
  }

  // Follows all inputs of the members, through other groups as a whole, until they precede all members.
  bool is_convex(const std::vector<uint32_t>& members) const {
    const auto is_member = [&](uint32_t i) { return std::binary_search(members.begin(), members.end(), i); };
    const uint32_t begin = seam(members.front());
    std::vector<uint32_t> stack;
    std::vector<bool> seen(members.back() + 1, false);
    const auto push_inputs = [&](uint32_t i) {
      for (ValueId v : graph_.nodes[i].inputs) {
        if (!seen[v.node]) stack.push_back(v.node);
        seen[v.node] = true;
      }
    };
    for (uint32_t m : members) {
      for (ValueId v : graph_.nodes[m].inputs) {
        if (is_member(v.node) || seen[v.node]) continue;
        seen[v.node] = true;
        stack.push_back(v.node);
      }
    }
    while (!stack.empty()) {
      const uint32_t i = stack.back();
      stack.pop_back();
      if (is_member(i)) return false;
      if (group_of_[i] != no_group) {
        const auto& other = groups_[group_of_[i]];
        if (other.back() < begin) continue;
        seen.resize(std::max<size_t>(seen.size(), other.back() + 1), false);
        for (uint32_t m : other) push_inputs(m);
      } else if (i > begin) {
        push_inputs(i);
      }
    }
    return true;
  }

  const Graph& graph_;
  const PointwiseTarget& target_;
  const Reach reach_;
  std::vector<std::vector<uint32_t>> uses_;
  std::vector<uint32_t> group_of_;             // by node
  std::vector<std::vector<uint32_t>> groups_;  // members in ascending order
  std::vector<uint32_t> large_;                // groups that have, or had, more than one
  std::vector<uint32_t> section_;              // by node
};

// The graph with each group as one node, in an order near the old one: a node runs after its inputs and after the nodes
// that preceded it.
Graph rebuild(const Graph& g, const PointwiseTarget& target, const Grouping& grouping) {
  struct Unit {
    std::span<const uint32_t> members;
    uint32_t position = 0;
    uint32_t missing = 0;
    std::vector<uint32_t> readers{};
  };
  std::vector<Unit> units;
  std::vector<uint32_t> number(g.nodes.size());  // of the unit
  std::vector<uint32_t> all(g.nodes.size());
  for (uint32_t i = 0; i < g.nodes.size(); ++i) all[i] = i;
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const auto* group = grouping.group(i);
    if (group && group->front() != i) {
      number[i] = number[group->front()];
      continue;
    }
    number[i] = uint32_t(units.size());
    units.push_back({group ? std::span<const uint32_t>(*group) : std::span<const uint32_t>(&all[i], 1), i});
  }
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    for (ValueId v : g.nodes[i].inputs) {
      if (number[v.node] == number[i]) continue;
      Unit& unit = units[number[i]];
      unit.position = std::max(unit.position, v.node);
      ++unit.missing;
      units[number[v.node]].readers.push_back(number[i]);
    }
  }
  using Entry = std::pair<uint32_t, uint32_t>;  // position and unit
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t u = 0; u < units.size(); ++u) {
    if (units[u].missing == 0) ready.push({units[u].position, u});
  }
  Graph out;
  std::vector<std::vector<ValueId>> moved(g.nodes.size());  // by node and output
  const auto mapped = [&](ValueId v) { return moved[v.node][v.output]; };
  while (!ready.empty()) {
    const Unit& unit = units[ready.top().second];
    ready.pop();
    const Node& last = g.nodes[unit.members.back()];
    Node n;
    std::vector<ValueId> outputs;
    if (unit.members.size() == 1) {
      n = last;
      for (uint32_t k = 0; k < n.outputs.size(); ++k) outputs.push_back({unit.members[0], k});
    } else {
      FusedGroup fused = target.fuse(g, unit.members, grouping.uses());
      n.op = fused.op;
      n.attrs = std::move(fused.attrs);
      n.name = fmt::format("{}..{}", g.nodes[unit.members.front()].name, last.name);
      n.inputs = std::move(fused.inputs);
      outputs = std::move(fused.outputs);
      for (ValueId v : outputs) {
        n.outputs.push_back(g.meta(v));
        n.layouts.push_back(g.layout(v));
        for (Provenance o : g.nodes[v.node].provenance) {
          if (o.output != v.output) continue;
          o.output = uint32_t(n.outputs.size() - 1);
          n.provenance.push_back(o);
        }
      }
      n.phase = last.phase;
    }
    for (ValueId& v : n.inputs) v = mapped(v);
    const uint32_t at = out.add(std::move(n)).node;
    for (uint32_t k = 0; k < outputs.size(); ++k) {
      moved[outputs[k].node].resize(outputs[k].output + 1);
      moved[outputs[k].node][outputs[k].output] = {at, k};
    }
    for (uint32_t r : unit.readers) {
      if (--units[r].missing == 0) ready.push({units[r].position, r});
    }
  }
  for (uint32_t i : g.inputs) out.inputs.push_back(mapped({i, 0}).node);
  for (ValueId v : g.outputs) out.outputs.push_back(mapped(v));
  out.num_forward_outputs = g.num_forward_outputs;
  return out;
}

}  // namespace

Graph fuse_groups(const Graph& g, const PointwiseTarget& target) {
  const size_t without = plan_memory(g).arena_bytes;
  Graph best;
  size_t least = SIZE_MAX;
  for (Reach reach : {Reach::anywhere, Reach::neighbours, Reach::one_output}) {
    Graph fused = rebuild(g, target, Grouping(g, target, reach));
    const size_t bytes = plan_memory(fused).arena_bytes;
    if (bytes >= least) continue;
    least = bytes;
    best = std::move(fused);
    if (bytes <= without) break;
  }
  return best;  // a little more than without only where values of several sizes fit together differently
}

}  // namespace kaon::graph::passes

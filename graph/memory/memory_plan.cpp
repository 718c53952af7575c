#include "kaon/graph/memory/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace kaon::graph {
namespace {

constexpr size_t alignment = 64;
size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// The memory of a value and its views and in-place results.
struct Item {
  ValueId root;
  size_t bytes = 0;
  size_t offset = 0;
  MemoryPlan::Life life{};
};

void set_times(MemoryPlan& plan, const Graph& graph) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) plan.times.push_back({i, i});
  uint32_t group = 0;
  for (const ParallelRegion& b : graph.parallel_regions) {
    for (size_t k = 0; k + 1 < b.groups.size(); ++k) {
      ++group;
      for (uint32_t i = b.groups[k]; i < b.groups[k + 1]; ++i) {
        plan.times[i] = {b.groups.front(), b.groups.back() - 1, group};
      }
    }
  }
}

// A slot per value, each still with its own memory.
void make_slots(MemoryPlan& plan, const Graph& graph) {
  uint32_t n = uint32_t(graph.nodes.size());
  plan.slots.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    for (uint32_t k = 0; k < node.outputs.size(); ++k) {
      const TensorMeta& m = node.outputs[k];
      plan.slots[i].push_back({.place = node.constant.defined() ? Place::constant : Place::arena,
                               .index = i,
                               .bytes = size_t(m.shape.size()) * size_of(m.dtype),
                               .first = i,
                               .last = i,
                               .root = {i, k}});
    }
    for (ValueId v : node.inputs) plan.slots[v.node][v.output].last = i;
  }
  auto lies_outside = [&](ValueId v, Place place, uint32_t index) {
    ValueSlot& s = plan.slots[v.node][v.output];
    s.place = place;
    s.index = index;
  };
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) lies_outside({graph.inputs[i], 0}, Place::input, i);
  for (uint32_t i = 0; i < graph.outputs.size(); ++i) lies_outside(graph.outputs[i], Place::output, i);
}

// Views and in-place results share their input's memory.
void share_memory(MemoryPlan& plan, const Graph& graph) {
  auto slot = [&](ValueId v) -> ValueSlot& { return plan.slots[v.node][v.output]; };
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!node.op || node.outputs.empty()) continue;
    ValueSlot& out = plan.slots[i][0];
    const int taken_over = node.op->traits_of(node.attrs.get()).inplace;
    if (node.op->traits.view) {
      out.root = slot(node.inputs[0]).root;
    } else if (taken_over >= 0 && out.place == Place::arena) {
      ValueId in = node.inputs[size_t(taken_over)];
      const ValueSlot& source = slot(slot(in).root);
      bool once = std::count_if(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId v) { return slot(v).root == slot(in).root; }) == 1;
      // a node that runs in parallel takes over only memory of its own group, which no other group reads
      const uint32_t group = plan.times[i].group;
      once = once && (group == 0 || plan.times[slot(in).root.node].group == group);
      if (source.place == Place::arena && source.last == i && source.bytes == out.bytes && once)
        out.root = slot(in).root;
    }
    ValueSlot& root = slot(out.root);
    root.last = std::max(root.last, out.last);
  }
}

// Each value that owns memory in the arena, the largest first, at the lowest offset that is free during its life.
void place_in_arena(MemoryPlan& plan, const Graph& graph) {
  std::vector<Item> items;
  auto slot = [&](const Item& b) -> ValueSlot& { return plan.slots[b.root.node][b.root.output]; };
  for (uint32_t i = 0; i < plan.slots.size(); ++i) {
    bool is_view = graph.nodes[i].op && graph.nodes[i].op->traits.view;
    for (uint32_t k = 0; k < plan.slots[i].size(); ++k) {
      const ValueSlot& s = plan.slots[i][k];
      if (s.place != Place::arena) continue;
      if (!is_view) plan.unplanned_bytes += aligned(s.bytes);
      if (s.root == ValueId{i, k} && s.bytes != 0) items.push_back({{i, k}, aligned(s.bytes), 0, plan.life(s)});
    }
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
  // By offset. Every value is compared with those before it: their lives are kept here, in the order of reading.
  std::vector<Item> placed;
  placed.reserve(items.size());
  for (Item& b : items) {
    size_t at = 0;
    for (const Item& p : placed) {
      if (!p.life.meets(b.life)) continue;
      if (at + b.bytes <= p.offset) break;  // fits into the gap before p
      at = std::max(at, p.offset + p.bytes);
    }
    b.offset = at;
    placed.insert(std::ranges::upper_bound(placed, at, {}, &Item::offset), b);
    plan.arena_bytes = std::max(plan.arena_bytes, at + b.bytes);
    slot(b).offset = at;
  }
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph) {
  MemoryPlan plan;
  set_times(plan, graph);
  make_slots(plan, graph);
  share_memory(plan, graph);
  place_in_arena(plan, graph);
  for (auto& node : plan.slots) {
    for (ValueSlot& s : node) {
      const ValueSlot& root = plan.slots[s.root.node][s.root.output];
      s.place = root.place;
      s.index = root.index;
      s.offset = root.offset;
    }
  }
  return plan;
}

MemoryPlan::Life MemoryPlan::life(const ValueSlot& s) const {
  const Time &first = times[s.first], &last = times[s.last];
  return {s.first, s.last, first.earliest, last.latest, first.group == last.group ? first.group : 0};
}

bool MemoryPlan::Life::meets(const Life& other) const {
  if (group != 0 && group == other.group) return first <= other.last && other.first <= last;
  return earliest <= other.latest && other.earliest <= latest;
}

void MemoryPlan::check(const Graph& graph) const {
  std::vector<std::pair<ValueId, const ValueSlot*>> roots;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    for (uint32_t k = 0; k < slots[i].size(); ++k) {
      const ValueSlot& s = slots[i][k];
      if (s.place == Place::arena && s.root == ValueId{i, k} && s.bytes) roots.push_back({{i, k}, &s});
    }
  }
  for (size_t a = 0; a < roots.size(); ++a) {
    const ValueSlot& x = *roots[a].second;
    if (x.offset + x.bytes > arena_bytes)
      throw Error(fmt::format("[memory plan] {} lies beyond the arena", graph.nodes[roots[a].first.node].name));
    for (size_t b = a + 1; b < roots.size(); ++b) {
      const ValueSlot& y = *roots[b].second;
      bool together = life(x).meets(life(y));
      bool overlap = x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
      if (together && overlap) {
        throw Error(fmt::format("[memory plan] {} and {} are alive together and overlap",
                                graph.nodes[roots[a].first.node].name, graph.nodes[roots[b].first.node].name));
      }
    }
  }
}

std::string MemoryPlan::report(const Graph& graph) const {
  std::string text = fmt::format("{:>10} {:>10}  {:>9}  value\n", "offset", "bytes", "alive");
  for (uint32_t i = 0; i < slots.size(); ++i) {
    for (uint32_t k = 0; k < slots[i].size(); ++k) {
      const ValueSlot& s = slots[i][k];
      if (s.place != Place::arena) continue;
      bool is_view = graph.nodes[i].op && graph.nodes[i].op->traits.view;
      const char* shares = s.root == ValueId{i, k} ? "" : is_view ? " (view)" : " (in place)";
      text += fmt::format("{:>10} {:>10}  {:>4}-{:<4}  {}{}{}{}\n", s.offset, s.bytes, s.first, s.last,
                          graph.nodes[i].name, k ? fmt::format(".{}", k) : "", shares,
                          graph.nodes[i].is_rematerialized ? " (computed again)" : "");
    }
  }
  double saved = unplanned_bytes ? 100.0 * (1.0 - double(arena_bytes) / double(unplanned_bytes)) : 0.0;
  return text +
         fmt::format("arena {} bytes, {} without sharing: {:.0f} % saved\n", arena_bytes, unplanned_bytes, saved);
}

}  // namespace kaon::graph

#include "kaon/graph/plan/parallel_regions.h"

#include <algorithm>
#include <numeric>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/memory/memory_plan.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {
namespace {

// Constants of the estimate: ns for a kernel's call; bytes and floating-point operations of one core per ns.
constexpr double call = 100, bytes_per_ns = 40, flops_per_ns = 100;
constexpr double hand_over = 8000;  // the gain that running in parallel must have at least
constexpr double worth_a_group = 4000;
constexpr double long_node = 1e6;  // its own pieces keep all threads busy
constexpr uint32_t longest = 96;   // nodes of a stretch
constexpr size_t most_groups = 8;
constexpr size_t free_growth = 1 << 20;  // bytes of the arena; of a larger one an eighth

// The time of a node that runs alone: its own pieces run on two threads, which costs a hand-over too.
double alone(double time) { return std::min(time, time / 2 + hand_over); }

double bytes_of(const TensorMeta& m) { return double(m.shape.size()) * double(size_of(m.dtype)); }

// Disjoint sets of the nodes of one stretch, by offset from its first.
class Sets {
 public:
  explicit Sets(size_t n) : parent_(n), time_(n) {}
  // Adds node i as a set of one.
  void add(uint32_t i, double time) { parent_[i] = i, time_[i] = time; }
  uint32_t find(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parent_[std::max(a, b)] = std::min(a, b);
    time_[std::min(a, b)] += time_[std::max(a, b)];
  }
  double time(uint32_t i) { return time_[find(i)]; }

 private:
  std::vector<uint32_t> parent_;
  std::vector<double> time_;
};

class Finder {
 public:
  Finder(const Graph& graph, bool training) : g_(graph), times_(graph.nodes.size()), stays_(graph.nodes.size()) {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      times_[i] = estimated_time(g_, n);
      stays_[i] = n.op && (passes::updates_inputs(n, training) || times_[i] > long_node ||
                           draws_numbers(*n.op, n.attrs.get(), training));
    }
  }

  // Stretches [first, last) that save most together, in order.
  std::vector<std::pair<uint32_t, uint32_t>> stretches() const {
    const uint32_t n = uint32_t(g_.nodes.size());
    std::vector<double> saved(n + 1);     // from node i on
    std::vector<uint32_t> end(n + 1, 0);  // of the stretch that begins at i; i: none does
    Sets sets(longest);
    for (uint32_t i = n; i-- > 0;) {
      saved[i] = saved[i + 1];
      end[i] = i;
      if (times_[i] == 0) continue;  // a stretch begins with a node that takes time
      double in_turn = 0, total = 0, most = 0;
      for (uint32_t k = i; k < std::min(n, i + longest); ++k) {
        if (stays_[k] || g_.nodes[k].phase != g_.nodes[i].phase) break;
        add(sets, i, k);
        in_turn += alone(times_[k]);
        total += times_[k];
        most = std::max(most, sets.time(k - i));
        const double gain = in_turn - std::max(most, total / 2) - hand_over;
        if (gain > 0 && gain + saved[k + 1] > saved[i]) {
          saved[i] = gain + saved[k + 1];
          end[i] = k + 1;
        }
      }
    }
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t i = 0; i < n;) {
      if (end[i] > i) found.push_back({i, end[i]});
      i = std::max(i + 1, end[i]);
    }
    return found;
  }

  // The nodes of a stretch, those without a group (arrays) first, then group by group; `begins`: where each begins.
  std::vector<uint32_t> in_groups(uint32_t first, uint32_t last, std::vector<uint32_t>& begins) const {
    Sets sets(last - first);
    for (uint32_t k = first; k < last; ++k) add(sets, first, k);
    std::vector<uint32_t> roots, order;
    double total = 0;
    size_t worked = 0;  // sets that are more than views
    for (uint32_t k = first; k < last; ++k) {
      if (!g_.nodes[k].op) {
        order.push_back(k);
      } else if (sets.find(k - first) == k - first) {
        roots.push_back(k - first);
        total += sets.time(k - first);
        worked += sets.time(k - first) > 0;
      }
    }
    // the longest set first, each to the group that has least to do
    std::stable_sort(roots.begin(), roots.end(), [&](uint32_t a, uint32_t b) { return sets.time(a) > sets.time(b); });
    const size_t groups = std::clamp(size_t(total / worth_a_group), size_t(2), std::min(worked, most_groups));
    std::vector<double> load(groups);
    std::vector<uint32_t> group_of(last - first);
    for (uint32_t root : roots) {
      const size_t least = size_t(std::min_element(load.begin(), load.end()) - load.begin());
      group_of[root] = uint32_t(least);
      load[least] += sets.time(root);
    }
    for (uint32_t group = 0; group < groups; ++group) {
      begins.push_back(first + uint32_t(order.size()));
      for (uint32_t k = first; k < last; ++k) {
        if (g_.nodes[k].op && group_of[sets.find(k - first)] == group) order.push_back(k);
      }
    }
    begins.push_back(last);
    return order;
  }

 private:
  // Arrays are there before the stretch begins: they join nothing.
  void add(Sets& sets, uint32_t first, uint32_t k) const {
    sets.add(k - first, times_[k]);
    for (ValueId v : g_.nodes[k].inputs) {
      if (v.node >= first && g_.nodes[v.node].op) sets.join(v.node - first, k - first);
    }
  }

  const Graph& g_;
  std::vector<double> times_;
  std::vector<bool> stays_;
};

// The same graph with its nodes in this order.
Graph reordered(Graph g, const std::vector<uint32_t>& order) {
  std::vector<uint32_t> now(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) now[order[i]] = i;
  std::vector<Node> nodes;
  for (uint32_t old : order) {
    nodes.push_back(std::move(g.nodes[old]));
    for (ValueId& v : nodes.back().inputs) v.node = now[v.node];
  }
  g.nodes = std::move(nodes);
  for (uint32_t& i : g.inputs) i = now[i];
  for (ValueId& v : g.outputs) v.node = now[v.node];
  return g;
}

}  // namespace

double estimated_time(const Graph& graph, const Node& node) {
  if (!node.op || node.op->traits.view) return 0;
  double bytes = 0;
  for (const TensorMeta& m : node.outputs) bytes += bytes_of(m);
  for (ValueId v : node.inputs) bytes += bytes_of(graph.meta(v));
  double flops = 0;
  if (node.op->flops) {
    std::vector<TensorMeta> inputs;
    for (ValueId v : node.inputs) inputs.push_back(graph.meta(v));
    flops = node.op->flops(node.attrs.get(), inputs, node.outputs);
  }
  return call + bytes / bytes_per_ns + flops / flops_per_ns;
}

Graph with_parallel_regions(Graph graph, bool training) {
  const Finder finder(graph, training);
  std::vector<uint32_t> order;
  std::vector<ParallelRegion> found;
  auto keep_until = [&](uint32_t node) {
    while (order.size() < node) order.push_back(uint32_t(order.size()));
  };
  for (const auto& [first, last] : finder.stretches()) {
    keep_until(first);
    ParallelRegion b;
    const std::vector<uint32_t> nodes = finder.in_groups(first, last, b.groups);
    order.insert(order.end(), nodes.begin(), nodes.end());
    found.push_back(std::move(b));
  }
  if (found.empty()) return graph;
  keep_until(uint32_t(graph.nodes.size()));
  const size_t one_by_one = plan_memory(graph).arena_bytes;
  Graph side_by_side = reordered(graph, order);
  side_by_side.parallel_regions = std::move(found);
  const size_t most = one_by_one + std::max(one_by_one / 8, free_growth);
  return plan_memory(side_by_side).arena_bytes <= most ? side_by_side : graph;
}

}  // namespace kaon::graph

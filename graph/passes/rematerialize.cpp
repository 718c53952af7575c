// Rematerialization: forward values that the backward reads and that are cheap to compute again are not kept.
#include <algorithm>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan_ops/rematerialize_batch_norm.h"

namespace kaon::graph::passes {
namespace {

// The decision for a node of the forward.
enum class Fate : uint8_t {
  gone,        // its value ends with the forward, and cannot be had again
  kept,        // its value is there in the backward
  recomputed,  // the backward reads it, and computes it a second time
  inner,       // the backward does not read it, but can compute it from values that it has
};

class Rematerializer {
 public:
  Rematerializer(const Graph& graph, bool training, int most)
      : g_(graph),
        training_(training),
        most_(most),
        updated_(updated_nodes(graph, training)),
        fate_(graph.nodes.size(), Fate::gone),
        depth_(graph.nodes.size(), 0) {
    find_reads();
    for (uint32_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (n.phase == Phase::backward) continue;
      if (n.op && !returned_[i] && is_cheap(i) && can_be_had(i)) {
        const bool is_read = by_saved(n) ? read_[i][0] : is_any(read_[i]);
        fate_[i] = is_read ? Fate::recomputed : Fate::inner;
        depth_[i] += is_read && !n.op->traits.view;
      } else {
        depth_[i] = 0;
        if (!n.op ? !updated_[i] : returned_[i] || is_any(read_[i])) fate_[i] = Fate::kept;
      }
    }
  }

  Graph rewrite() const {
    Rewriter out(g_);
    std::vector<uint32_t> copies(g_.nodes.size(), none);
    for (uint32_t i = 0; i < g_.nodes.size(); ++i) {
      Node n = g_.nodes[i];
      for (ValueId& v : n.inputs) v = n.phase == Phase::backward ? later(v, out, copies) : out.now(v);
      out.replace(i, std::move(n));
    }
    return out.finish();
  }

 private:
  static constexpr uint32_t none = UINT32_MAX;

  static bool is_any(const std::vector<bool>& v) { return std::find(v.begin(), v.end(), true) != v.end(); }

  // A value that is read through a view counts as read.
  void find_reads() {
    for (const Node& n : g_.nodes) read_.emplace_back(n.outputs.size(), false);
    returned_.assign(g_.nodes.size(), false);
    for (ValueId v : g_.outputs) returned_[v.node] = true;
    for (const Node& n : g_.nodes) {
      if (n.phase != Phase::backward) continue;
      for (ValueId v : n.inputs) {
        while (!read_[v.node][v.output]) {
          read_[v.node][v.output] = true;
          if (g_.nodes[v.node].op && g_.nodes[v.node].op->traits.view) v = g_.nodes[v.node].inputs[0];
        }
      }
    }
  }

  // Operators whose first output follows from the input and values that the backward reads anyway: statistics, a mask.
  static bool by_saved(const Node& n) { return n.op == &op::BatchNorm::def || n.op == &op::Dropout::def; }
  // How many of its inputs a second computation reads.
  static size_t inputs_read(const Node& n) { return n.op == &op::BatchNorm::def ? 3 : n.inputs.size(); }

  bool is_cheap(uint32_t i) const {
    const Node& n = g_.nodes[i];
    if (updated_[i]) return false;
    for (size_t k = 0; k < inputs_read(n); ++k) {
      if (updated_[root(g_, n.inputs[k]).node]) return false;
    }
    if (by_saved(n)) {  // the backward must read the saved values, which must not have changed
      const DType saved = n.outputs[1].dtype;
      return std::find(read_[i].begin() + 1, read_[i].end(), false) == read_[i].end() &&
             (saved == DType::float32 || saved == DType::float64);
    }
    const OpTraits& traits = n.op->traits_of(n.attrs.get());
    if (traits.random || updates_inputs(n, training_)) return false;
    return traits.pointwise || traits.view || traits.recomputable;
  }

  // Whether the backward has the inputs of node i. Sets its depth: how many recomputed values build on each other up to
  // it; these are alive together until the backward reads the first.
  bool can_be_had(uint32_t i) {
    const Node& n = g_.nodes[i];
    for (size_t k = 0; k < inputs_read(n); ++k) {
      const ValueId v = n.inputs[k];
      const Node& from = g_.nodes[v.node];
      const bool is_saved = from.op && (fate_[v.node] == Fate::kept || (v.output > 0 && by_saved(from)));
      if (is_saved && !returned_[v.node] && !read_[v.node][v.output]) return false;
      if (fate_[v.node] == Fate::gone) return false;
      depth_[i] = std::max(depth_[i], depth_[v.node]);
    }
    return depth_[i] < most_ || n.op->traits.view;
  }

  bool is_recomputed(ValueId v) const {
    const bool saved = v.output > 0 && by_saved(g_.nodes[v.node]);
    return !saved && (fate_[v.node] == Fate::recomputed || fate_[v.node] == Fate::inner) &&
           g_.nodes[v.node].phase == Phase::forward;
  }

  // The value for a reader in the backward: computed here when it is not there yet.
  ValueId later(ValueId v, Rewriter& out, std::vector<uint32_t>& copies) const {
    if (!is_recomputed(v)) return out.now(v);
    std::vector<uint32_t> stack{v.node};
    while (!stack.empty()) {
      const uint32_t i = stack.back();
      const Node& n = g_.nodes[i];
      const size_t waiting = stack.size();
      const size_t inputs = inputs_read(n);
      for (size_t k = 0; k < inputs; ++k) {
        if (is_recomputed(n.inputs[k]) && copies[n.inputs[k].node] == none) stack.push_back(n.inputs[k].node);
      }
      if (stack.size() > waiting) continue;
      stack.pop_back();
      if (copies[i] != none) continue;
      Node copy = copy_of(i, out);
      for (size_t k = 0; k < inputs; ++k) {
        const ValueId in = n.inputs[k];
        copy.inputs[k] = is_recomputed(in) ? ValueId{copies[in.node], in.output} : out.now(in);
      }
      copies[i] = out.add(std::move(copy)).node;
    }
    return {copies[v.node], v.output};
  }

  // The node with room for its inputs; saved values are in their place.
  Node copy_of(uint32_t i, const Rewriter& out) const {
    const Node& n = g_.nodes[i];
    Node copy = n;
    copy.name = n.name + "_rematerialized";
    copy.phase = Phase::backward;
    copy.is_rematerialized = true;
    if (!by_saved(n)) return copy;
    copy.outputs.resize(1);
    copy.layouts.resize(std::min<size_t>(copy.layouts.size(), 1));
    if (n.op == &op::Dropout::def) {
      set_operator(copy, op::BroadcastMul{});
      copy.inputs = {n.inputs[0], out.now({i, 1})};
    } else {
      const op::BatchNorm& op = attributes<op::BatchNorm>(n);
      set_operator(copy, op::RematerializeBatchNorm{.fix_gamma = op.fix_gamma, .axis = op.axis});
      copy.inputs = {n.inputs[0], n.inputs[1], n.inputs[2], out.now({i, 1}),
                     out.now({i, uint32_t(op.signed_inverse())})};
    }
    return copy;
  }

  const Graph& g_;
  const bool training_;
  const int most_;
  // by node
  const std::vector<bool> updated_;
  std::vector<bool> returned_;
  std::vector<std::vector<bool>> read_;  // by output: does the backward read it?
  std::vector<Fate> fate_;
  std::vector<int> depth_;  // how many recomputed values build on each other, up to this one
};

}  // namespace

Graph rematerialize(Graph g, bool training, int depth) { return Rematerializer(g, training, depth).rewrite(); }

}  // namespace kaon::graph::passes

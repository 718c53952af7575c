// Transposes into matrix products.
#include <algorithm>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"

namespace kaon::graph::passes {
namespace {

// Whether the node exchanges the last two axes of an array with `ndim` axes, and no others.
bool is_transpose(const Graph& g, const Node& n, int ndim) {
  if (n.op != &op::Transpose::def && n.op != &op::SwapAxis::def) return false;
  if (g.meta(n.inputs[0]).shape.ndim() != ndim) return false;
  auto axis = [&](int64_t a) { return int(a < 0 ? a + ndim : a); };
  if (n.op == &op::SwapAxis::def) {
    const op::SwapAxis& op = attributes<op::SwapAxis>(n);
    const int a = axis(op.dim1), b = axis(op.dim2);
    return std::min(a, b) == ndim - 2 && std::max(a, b) == ndim - 1;
  }
  const Shape& axes = attributes<op::Transpose>(n).axes;
  if (axes.empty()) return ndim == 2;
  for (int i = 0; i < ndim - 2; ++i) {
    if (axis(axes[i]) != i) return false;
  }
  return axis(axes[ndim - 2]) == ndim - 1;
}

// For both products: Op is Dot with 2 axes, BatchDot with 3.
template <class Op>
class Folding {
 public:
  Folding(Graph& g, const std::vector<bool>& updated, const std::vector<std::vector<uint32_t>>& uses, int ndim)
      : g_(g), updated_(updated), uses_(uses), ndim_(ndim) {}

  void operator()(Node& n) const {
    if (n.op == &Op::def) {
      fold_inputs(n);
    } else if (is_transpose(g_, n, ndim_)) {
      fold_product(n);
    }
  }

 private:
  void fold_inputs(Node& n) const {
    Op op = attributes<Op>(n);
    bool* const flags[] = {&op.transpose_a, &op.transpose_b};
    bool changed = false;
    for (size_t i = 0; i < 2; ++i) {
      for (const Node* from = &g_.nodes[n.inputs[i].node];
           is_transpose(g_, *from, ndim_) && !reads_updated(g_, *from, updated_); from = &g_.nodes[n.inputs[i].node]) {
        n.inputs[i] = from->inputs[0];
        *flags[i] = !*flags[i];
        changed = true;
      }
    }
    if (changed) set_operator(n, op);
  }

  // (A B)^T = B^T A^T
  void fold_product(Node& n) const {
    const ValueId from = n.inputs[0];
    const Node& product = g_.nodes[from.node];
    if (product.op != &Op::def || uses_[from.node][0] != 1 || product.phase != n.phase) return;
    if (g_.meta(product.inputs[0]).shape.ndim() != ndim_ || g_.meta(product.inputs[1]).shape.ndim() != ndim_) return;
    if (reads_updated(g_, product, updated_)) return;
    const Op op = attributes<Op>(product);
    n.inputs = {product.inputs[1], product.inputs[0]};
    set_operator(n, Op{.transpose_a = !op.transpose_b, .transpose_b = !op.transpose_a});
  }

  Graph& g_;
  const std::vector<bool>& updated_;
  const std::vector<std::vector<uint32_t>>& uses_;
  int ndim_;
};

}  // namespace

Graph fold_transposes(Graph g, bool training) {
  const std::vector<bool> updated = updated_nodes(g, training);
  const auto uses = count_uses(g);
  const Folding<op::Dot> dot(g, updated, uses, 2);
  const Folding<op::BatchDot> batch_dot(g, updated, uses, 3);
  for (Node& n : g.nodes) {
    dot(n);
    batch_dot(n);
  }
  return g;
}

}  // namespace kaon::graph::passes

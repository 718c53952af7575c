#include "kaon/graph/passes/pointwise_target.h"

#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/all_ops.h"

namespace kaon::passes {

bool is_spread(const Node& n) {
  return n.op == &BroadcastTo::def || n.op == &BroadcastAxis::def || n.op == &SumGrad::def;
}

Shape strides_of(const Graph& g, const Node& n, ValueId v) {
  const Shape &whole = n.outputs[0].shape, &in = g.meta(v).shape;
  if (in.size() == whole.size()) return {};
  Shape stride = Shape::filled(whole.ndim(), 0);
  int64_t step = 1;
  if (n.op == &SumGrad::def) {
    uint32_t summed = 0;
    for (int64_t a : attributes<SumGrad>(n).axis) summed |= bit(int(a < 0 ? a + whole.ndim() : a));
    for (int i = whole.ndim(); i-- > 0;) {
      if (summed & bit(i)) continue;
      stride[i] = step;
      step *= whole[i];
    }
  } else {
    for (int i = whole.ndim(), k = in.ndim(); k-- > 0;) {
      if (in[k] != 1) stride[i - 1] = step;
      step *= in[k], --i;
    }
  }
  return stride;
}

}  // namespace kaon::passes

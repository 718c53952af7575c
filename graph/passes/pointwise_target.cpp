#include "kaon/graph/passes/pointwise_target.h"

#include "kaon/ops/fused/vector_program.h"
#include "kaon/ops/op.h"

namespace kaon::graph::passes {

Shape strides_of(const Graph& g, const Node& n, ValueId v) {
  const Shape &whole = n.outputs[0].shape, &in = g.meta(v).shape;
  if (in.size() == whole.size()) return {};
  Shape stride = Shape::filled(whole.ndim(), 0);
  int64_t step = 1;
  if (const uint32_t repeated = vector_forms(*n.op, n.attrs.get()).repeated) {
    for (int i = whole.ndim(); i-- > 0;) {
      if (repeated & bit(i)) continue;
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

}  // namespace kaon::graph::passes

// Count sketches, made of other operators.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/signal/signal.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::CountSketch::def = make_op_def<op::CountSketch>();

void op::CountSketch::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  if (out_dim < 1) c.fail_value(fmt::format("out_dim must be at least 1, got {}", out_dim));
  if (processing_batch_size < 1) {
    c.fail_value(fmt::format("processing_batch_size must be at least 1, got {}", processing_batch_size));
  }
  Shape out = c.shape(0);
  for (int i : {1, 2}) {
    if (c.shape(i) != Shape(out.back()) && c.shape(i) != Shape(1, out.back())) {
      c.fail(fmt::format("h and s must have a number for each of the {} columns; inputs: {}", out.back(),
                         c.describe_inputs()));
    }
  }
  if (c.dtype(1) == DType::boolean) c.fail_dtype("h must be numbers, got bool");
  if (c.dtype(2) != c.dtype()) {
    c.fail_dtype(fmt::format("data and s must have one dtype, got {} and {}", name_of(c.dtype()), name_of(c.dtype(2))));
  }
  out[out.ndim() - 1] = out_dim;
  c.set_output(out, c.dtype());
}

void op::CountSketch::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const int64_t columns = c.input().shape().back(), rows = out.size() / out_dim;
  if (columns == 0 || rows == 0) return c.set(nd.zeros(out, {.dtype = c.output().dtype}));
  const auto shaped = [](const NDArray& x, const Shape& shape) { return nd._reshape_to(x, {.shape = shape}); };
  const NDArray signed_columns = shaped(c.input(0), {rows, columns}) * shaped(nd.BlockGrad(c.input(2)), {1, columns});
  const NDArray zeros = nd.zeros({rows, out_dim}, {.dtype = c.output().dtype});
  c.set(shaped(nd.index_add(zeros, shaped(c.input(1), Shape(columns)), signed_columns, {.axis = 1}), out));
}

}  // namespace kaon

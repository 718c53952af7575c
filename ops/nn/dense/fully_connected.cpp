#include "kaon/ops/nn/dense/dense.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/linalg/kernels/gemm.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// How many elements of x meet one row of W.
int64_t inner_size(const Shape& data, bool flatten) { return flatten ? data.product(1, data.ndim()) : data.back(); }

NDArray matrix(const NDArray& x, int64_t rows, int64_t columns) {
  return x.ndim() == 2 ? x : nd._reshape_to(x, {.shape = Shape(rows, columns)});
}

template <class T>
void multiply(const op::FullyConnected& op, KernelContext& c) {
  const Shape& weight = c.in(1).shape;
  gemm(c, Gemm<T>{.a = c.in(0).as<T>(),
                  .b = c.in(1).as<T>(),
                  .c = c.out().as<T>(),
                  .m = weight[0] ? c.out().size() / weight[0] : 0,
                  .n = weight[0],
                  .k = weight[1],
                  .transpose_b = true,
                  .epilogue = layer_epilogue<T>(c, op.no_bias, op.post_ops)});
}

}  // namespace

constinit const OpDef op::FullyConnected::def = make_op_def<op::FullyConnected>();

double op::FullyConnected::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return gemm_flops(inputs[0].shape, inputs[1].shape, outputs[0].shape);
}

void op::FullyConnected::infer(InferContext& c) const {
  if (post_ops != PostOps()) c.fail_value("__post_ops__ is for the nodes of plans");
  if (num_hidden < 1) c.fail_value(fmt::format("num_hidden must be at least 1, got {}", num_hidden));
  c.expect_ndim_at_least(0, 1);
  c.expect_same_dtype();
  c.expect_floating();
  const Shape data = c.shape(0);
  c.expect_shape(1, Shape(num_hidden, inner_size(data, flatten)));
  if (!no_bias) c.expect_shape(2, Shape(num_hidden));
  if (flatten) {
    c.set_output(Shape(data[0], num_hidden), c.dtype());
  } else {
    Shape out = data;
    out[data.ndim() - 1] = num_hidden;
    c.set_output(out, c.dtype());
  }
}

void op::FullyConnected::grad(GradContext& g) const {
  const Shape& data = g.input_like(0).shape();
  const int64_t inner = inner_size(data, flatten);
  const int64_t rows = g.head().size() / num_hidden;
  const NDArray head = matrix(g.head(), rows, num_hidden);
  // the bias's gradient first: it is in a bucket with those of later layers, whose sum over ranks waits for it
  if (!no_bias && g.wants(2)) g.set(2, nd.sum(head, {.axis = Shape(0)}));
  // the weight's gradient next: the data is often unused after it, so that the data's gradient can take its memory
  if (g.wants(1)) g.set(1, nd.dot(head, matrix(g.input(0), rows, inner), {.transpose_a = true}));
  if (g.wants(0)) {
    const NDArray gradient = nd.dot(head, g.input(1));
    g.set(0, data.ndim() == 2 ? gradient : nd._reshape_to(gradient, {.shape = data}));
  }
}

void run_cpu(const op::FullyConnected& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) { multiply<T>(op, c); });
}

}  // namespace kaon

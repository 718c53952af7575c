#include "kaon/ops/linalg/linalg.h"

#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/linalg/kernels/dot_sides.h"
#include "kaon/ops/linalg/kernels/gemm.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// The array reshaped to the matrix that is multiplied.
NDArray matrix(const NDArray& x, int64_t rows, int64_t columns) { return shaped(x, Shape(rows, columns)); }

template <class T>
Gemm<T> product(KernelContext& c, const DotSide& a, const DotSide& b, bool transpose_a, bool transpose_b) {
  return {.a = c.in(0).as<T>(),
          .b = c.in(1).as<T>(),
          .c = c.out().as<T>(),
          .m = a.rest,
          .n = b.rest,
          .k = a.contracted,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b};
}

}  // namespace

constinit const OpDef op::Dot::def = make_op_def<op::Dot>();
constinit const OpDef op::BatchDot::def = make_op_def<op::BatchDot>();

double op::Dot::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return gemm_flops(inputs[0].shape, inputs[1].shape, outputs[0].shape);
}

void op::Dot::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  c.expect_ndim_at_least(1, 1);
  c.expect_same_dtype();
  c.expect_floating();
  const Shape& a = c.shape(0);
  const Shape& b = c.shape(1);
  const int axis_a = transpose_a ? 0 : a.ndim() - 1, axis_b = transpose_b ? b.ndim() - 1 : 0;
  if (a[axis_a] != b[axis_b]) {
    c.fail(fmt::format("axis {} of lhs and axis {} of rhs must be equal, got {} and {}; {}", axis_a, axis_b, a[axis_a],
                       b[axis_b], c.describe_inputs()));
  }
  if (a.ndim() + b.ndim() - 2 > Shape::max_ndim) {
    c.fail(fmt::format("the result would have more than {} dimensions; {}", Shape::max_ndim, c.describe_inputs()));
  }
  Shape out;
  for (int i = 0; i < a.ndim(); ++i) {
    if (i != axis_a) out.push_back(a[i]);
  }
  for (int i = 0; i < b.ndim(); ++i) {
    if (i != axis_b) out.push_back(b[i]);
  }
  if (out.ndim() == 0) out.push_back(1);
  c.set_output(out, c.dtype());
}

void op::Dot::grad(GradContext& g) const {
  const Shape& sa = g.input_like(0).shape();
  const Shape& sb = g.input_like(1).shape();
  const DotSide a = lhs_side(sa, transpose_a), b = rhs_side(sb, transpose_b);
  const NDArray head = matrix(g.head(), a.rest, b.rest);
  if (g.wants(0)) {
    const NDArray rhs =
        transpose_b ? matrix(g.input(1), b.rest, b.contracted) : matrix(g.input(1), b.contracted, b.rest);
    g.set(0, shaped(transpose_a ? nd.dot(rhs, head, {.transpose_a = transpose_b, .transpose_b = true})
                                : nd.dot(head, rhs, {.transpose_b = !transpose_b}),
                    sa));
  }
  if (g.wants(1)) {
    const NDArray lhs =
        transpose_a ? matrix(g.input(0), a.contracted, a.rest) : matrix(g.input(0), a.rest, a.contracted);
    g.set(1, shaped(transpose_b ? nd.dot(head, lhs, {.transpose_a = true, .transpose_b = transpose_a})
                                : nd.dot(lhs, head, {.transpose_a = !transpose_a}),
                    sb));
  }
}

void run_cpu(const op::Dot& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const DotSide a = lhs_side(c.in(0).shape, op.transpose_a), b = rhs_side(c.in(1).shape, op.transpose_b);
    gemm(c, product<T>(c, a, b, op.transpose_a, op.transpose_b));
  });
}

double op::BatchDot::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return gemm_flops(inputs[0].shape, inputs[1].shape, outputs[0].shape, outputs[0].shape[0]);
}

void op::BatchDot::infer(InferContext& c) const {
  c.expect_ndim(0, 3);
  c.expect_ndim(1, 3);
  c.expect_same_dtype();
  c.expect_floating();
  const Shape& a = c.shape(0);
  const Shape& b = c.shape(1);
  const int64_t k = transpose_a ? a[1] : a[2];
  if (a[0] != b[0] || k != (transpose_b ? b[2] : b[1])) {
    c.fail(fmt::format("batch and contracted axis must be equal, got {}{}{}", c.describe_inputs(),
                       transpose_a ? ", transpose_a" : "", transpose_b ? ", transpose_b" : ""));
  }
  c.set_output(Shape(a[0], transpose_a ? a[2] : a[1], transpose_b ? b[1] : b[2]), c.dtype());
}

void op::BatchDot::grad(GradContext& g) const {
  const NDArray& head = g.head();
  if (g.wants(0)) {
    const NDArray& b = g.input(1);
    g.set(0, transpose_a ? nd.batch_dot(b, head, {.transpose_a = transpose_b, .transpose_b = true})
                         : nd.batch_dot(head, b, {.transpose_b = !transpose_b}));
  }
  if (g.wants(1)) {
    const NDArray& a = g.input(0);
    g.set(1, transpose_b ? nd.batch_dot(head, a, {.transpose_a = true, .transpose_b = transpose_a})
                         : nd.batch_dot(a, head, {.transpose_a = !transpose_a}));
  }
}

void run_cpu(const op::BatchDot& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const Shape& sa = c.in(0).shape;
    const Shape& sb = c.in(1).shape;
    const DotSide a = lhs_side(Shape(sa[1], sa[2]), op.transpose_a), b = rhs_side(Shape(sb[1], sb[2]), op.transpose_b);
    batch_gemm(c, product<T>(c, a, b, op.transpose_a, op.transpose_b), sa[0]);
  });
}

}  // namespace kaon

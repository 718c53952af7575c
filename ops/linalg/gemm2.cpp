// BLAS's products, as products of batches.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/kernels/contraction.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::LinalgGemm::def = make_op_def<op::LinalgGemm>();
constinit const OpDef op::LinalgGemm2::def = make_op_def<op::LinalgGemm2>();
constinit const OpDef op::LinalgSyrk::def = make_op_def<op::LinalgSyrk>();
constinit const OpDef op::LinalgTrmm::def = make_op_def<op::LinalgTrmm>();

namespace {

// `axis` of arrays with this number of axes, checked; the columns are along the last one.
int row_axis(const InferContext& c, int64_t axis, int ndim) {
  const int rows = normalize_axis(axis, ndim, c.op());
  if (rows == ndim - 1) c.fail_value(fmt::format("axis {} is that of the columns", axis));
  return rows;
}

struct Transposes {
  bool a = false, b = false;
};

// The shape of op(A) op(B) for matrices along `axis` and the last axis.
Shape product_shape(const InferContext& c, Transposes t, int64_t axis) {
  c.expect_ndim_at_least(0, 2);
  c.expect_ndim(1, c.shape(0).ndim());
  c.expect_same_dtype();
  c.expect_floating();
  const Shape &a = c.shape(0), &b = c.shape(1);
  const int last = a.ndim() - 1, rows = row_axis(c, axis, a.ndim());
  bool fits = a[t.a ? rows : last] == b[t.b ? last : rows];
  for (int i = 0; i < last; ++i) fits = fits && (i == rows || a[i] == b[i]);
  if (!fits) {
    c.fail(fmt::format("the leading axes, and the axis of A and of B that is summed over, must be equal, got {}{}{}",
                       c.describe_inputs(), t.a ? ", transpose_a" : "", t.b ? ", transpose_b" : ""));
  }
  Shape out = a;
  out[rows] = a[t.a ? last : rows], out[last] = b[t.b ? rows : last];
  return out;
}

NDArray scaled(const NDArray& x, double factor) { return factor == 1 ? x : x * factor; }

// alpha op(A) op(B) for matrices along `axis` and the last axis.
NDArray product(const NDArray& a, const NDArray& b, Transposes t, double alpha, int64_t axis) {
  const int n = a.shape().ndim();
  const Shape rows(normalize_axis(axis, n, "linalg_gemm2")), columns(n - 1);
  const Shape batch = other_axes(n, joined(rows, columns));
  const auto operand = [&](const NDArray& x, bool transpose) {
    return as_matrices(x, batch, transpose ? columns : rows, transpose ? rows : columns);
  };
  const NDArray y = scaled(batch_product(operand(a, t.a), operand(b, t.b)), alpha);
  const Shape all = joined(sizes_of(a.shape(), batch), Shape(y.shape()[1], y.shape()[2]));
  // the rows are the last axis but one, and go back to their place
  Shape order = consecutive_axes(0, int(rows[0]));
  order.push_back(n - 2);
  for (int i = int(rows[0]); i < n - 2; ++i) order.push_back(i);
  order.push_back(n - 1);
  return reordered(shaped(y, all), order);
}

}  // namespace

void op::LinalgGemm::infer(InferContext& c) const {
  const Shape out = product_shape(c, {transpose_a, transpose_b}, axis);
  if (c.shape(2) != out) c.fail(fmt::format("C must be {}, got {}", out.str(), c.describe_inputs()));
  c.set_output(out, c.dtype());
}

void op::LinalgGemm::compose(ComposeContext& c) const {
  const NDArray y = product(c.input(0), c.input(1), {transpose_a, transpose_b}, alpha, axis);
  c.set(beta == 0 ? y : y + scaled(c.input(2), beta));
}

void op::LinalgGemm2::infer(InferContext& c) const {
  c.set_output(product_shape(c, {transpose_a, transpose_b}, axis), c.dtype());
}

void op::LinalgGemm2::compose(ComposeContext& c) const {
  c.set(product(c.input(0), c.input(1), {transpose_a, transpose_b}, alpha, axis));
}

void op::LinalgSyrk::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 2);
  c.expect_floating();
  Shape out = c.shape(0);
  const int last = out.ndim() - 1;
  out[last - 1] = out[last] = out[transpose ? last : last - 1];
  c.set_output(out, c.dtype());
}

void op::LinalgSyrk::compose(ComposeContext& c) const {
  c.set(product(c.input(), c.input(), {transpose, !transpose}, alpha, -2));
}

void op::LinalgTrmm::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 2);
  const Shape &a = c.shape(0), &b = c.shape(1);
  const int last = a.ndim() - 1;
  bool fits = b.ndim() == a.ndim() && a[last] == a[last - 1] && a[last] == b[rightside ? last : last - 1];
  for (int i = 0; i < last - 1; ++i) fits = fits && a[i] == b[i];
  if (!fits) {
    c.fail(fmt::format("A must be square, its leading axes those of B, and its size the {} of B, got {}",
                       rightside ? "columns" : "rows", c.describe_inputs()));
  }
  c.expect_same_dtype();
  c.expect_floating();
  c.set_output(b, c.dtype());
}

void op::LinalgTrmm::compose(ComposeContext& c) const {
  const NDArray a = nd._triangle(c.input(0), {.lower = lower});
  c.set(rightside ? product(c.input(1), a, {false, transpose}, alpha, -2)
                  : product(a, c.input(1), {transpose, false}, alpha, -2));
}

}  // namespace kaon

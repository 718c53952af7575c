// Diagonals as NumPy has them: without elements outside of a matrix.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "kaon/ops/functions.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::NumpyDiag::def = make_op_def<op::NumpyDiag>();
constinit const OpDef op::DiagFlat::def = make_op_def<op::DiagFlat>();
constinit const OpDef op::Diagonal::def = make_op_def<op::Diagonal>();
constinit const OpDef op::Trace::def = make_op_def<op::Trace>();
constinit const OpDef op::DiagIndicesFrom::def = make_op_def<op::DiagIndicesFrom>();

namespace {

// The shape of the diagonals along two axes, which become the last one. Throws for axes that do not exist or are one.
Shape diagonal_shape(const InferContext& c, int64_t offset, int axis1, int axis2) {
  const Shape& in = c.shape(0);
  c.expect_ndim_at_least(0, 2);
  const int row = normalize_axis(axis1, in.ndim(), c.op()), column = normalize_axis(axis2, in.ndim(), c.op());
  if (row == column) c.fail_value(fmt::format("axis1 and axis2 must differ, got {} and {}", axis1, axis2));
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    if (i != row && i != column) out.push_back(in[i]);
  }
  const int64_t none = 0;
  out.push_back(std::max(none, std::min(in[row] + std::min(offset, none), in[column] - std::max(offset, none))));
  return out;
}

NDArray diagonal_of(const NDArray& x, int offset, int axis1, int axis2, const Shape& shape) {
  if (shape.back() > 0) return nd.diag(x, {.k = offset, .axis1 = axis1, .axis2 = axis2});
  const NDArray nothing = nd.slice_axis(nd._reshape_to(x, {.shape = Shape(x.size())}), 0, 0, 0);
  return nd._reshape_to(nothing, {.shape = shape});
}

Shape square(int64_t n) { return Shape(n, n); }

}  // namespace

void op::NumpyDiag::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  if (in.ndim() == 1) return c.set_output(square(in[0] + std::abs(int64_t(k))), c.dtype());
  c.expect_ndim(0, 2);
  c.set_output(diagonal_shape(c, k, 0, 1), c.dtype());
}

void op::NumpyDiag::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  c.set(x.ndim() == 1 ? nd.diag(x, {.k = k}) : diagonal_of(x, k, 0, 1, c.output().shape));
}

void op::DiagFlat::infer(InferContext& c) const {
  c.set_output(square(c.shape(0).size() + std::abs(int64_t(k))), c.dtype());
}

void op::DiagFlat::compose(ComposeContext& c) const {
  c.set(nd.diag(nd._reshape_to(c.input(), {.shape = Shape(c.input().size())}), {.k = k}));
}

void op::Diagonal::infer(InferContext& c) const { c.set_output(diagonal_shape(c, offset, axis1, axis2), c.dtype()); }

void op::Diagonal::compose(ComposeContext& c) const {
  c.set(diagonal_of(c.input(), offset, axis1, axis2, c.output().shape));
}

void op::Trace::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  Shape out;
  const Shape diagonals = diagonal_shape(c, offset, axis1, axis2);
  for (int i = 0; i + 1 < diagonals.ndim(); ++i) out.push_back(diagonals[i]);
  c.set_output(out.empty() ? Shape(1) : out, c.dtype());
}

void op::Trace::compose(ComposeContext& c) const {
  c.set(nd._np_sum(nd.diagonal(c.input(), {.offset = offset, .axis1 = axis1, .axis2 = axis2}), {.axis = Shape(-1)}));
}

void op::DiagIndicesFrom::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  c.expect_ndim_at_least(0, 2);
  if (std::any_of(in.begin(), in.end(), [&](int64_t n) { return n != in[0]; })) {
    c.fail(fmt::format("all sizes must be equal, got shape {}", in.str()));
  }
  c.set_output(Shape(in.ndim(), in[0]), DType::int64);
}

void op::DiagIndicesFrom::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const NDArray positions = nd.arange(out[1], {.dtype = DType::int64});
  c.set(nd.broadcast_axis(nd._reshape_to(positions, {.shape = Shape(1, out[1])}), Shape(0), Shape(out[0])));
}

}  // namespace kaon

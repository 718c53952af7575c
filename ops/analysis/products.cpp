// NumPy's dot, vector products, norms of every order.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/analysis/analysis.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/statistics/kernels/chosen_axes.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::NumpyDot::def = make_op_def<op::NumpyDot>();
constinit const OpDef op::Cross::def = make_op_def<op::Cross>();
constinit const OpDef op::NumpyNorm::def = make_op_def<op::NumpyNorm>();
constinit const OpDef op::LinalgNorm::def = make_op_def<op::LinalgNorm>();

namespace {

void expect_numbers(const InferContext& c) {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
}

}  // namespace

// --- dot

void op::NumpyDot::infer(InferContext& c) const {
  expect_numbers(c);
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a.ndim() == 0 || b.ndim() == 0) return c.set_output(a.ndim() == 0 ? b : a, c.dtype());
  const int summed = b.ndim() == 1 ? 0 : b.ndim() - 2;
  if (a.back() != b[summed]) {
    c.fail(fmt::format("the last axis of a and axis {} of b must have one size, got {}", summed, c.describe_inputs()));
  }
  Shape out;
  for (int i = 0; i + 1 < a.ndim(); ++i) out.push_back(a[i]);
  for (int i = 0; i < b.ndim(); ++i) {
    if (i != summed) out.push_back(b[i]);
  }
  c.set_output(out.empty() ? Shape(1) : out, c.dtype());
}

void op::NumpyDot::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  if (a.ndim() == 0 || b.ndim() == 0) return c.set(nd.broadcast_mul(a, b));
  const int summed = b.ndim() == 1 ? 0 : b.ndim() - 2;
  c.set(nd.tensordot(a, b, {.a_axes_summed = Shape(a.ndim() - 1), .b_axes_summed = Shape(summed)}));
}

// --- cross

void op::Cross::infer(InferContext& c) const {
  expect_numbers(c);
  const Shape out = broadcast_shapes(c.shape(0), c.shape(1), c.op());
  for (int i = 0; i < 2; ++i) {
    const int at = normalize_axis(axis, c.shape(i).ndim(), c.op());
    if (c.shape(i)[at] != 3) c.fail(fmt::format("axis {} must have size 3, got {}", axis, c.describe_inputs()));
    if (c.shape(i).ndim() - at != out.ndim() - normalize_axis(axis, out.ndim(), c.op())) {
      c.fail(fmt::format("axis {} must be one axis of both arrays, got {}; count it from the end", axis,
                         c.describe_inputs()));
    }
  }
  c.set_output(out, c.dtype());
}

void op::Cross::compose(ComposeContext& c) const {
  const auto part = [&](int input, int64_t i) { return nd.slice_axis(c.input(input), axis, i, i + 1); };
  std::vector<NDArray> parts;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(nd.broadcast_mul(part(0, j), part(1, k)) - nd.broadcast_mul(part(0, k), part(1, j)));
  }
  c.set(nd.concat(parts, {.dim = axis}));
}

// --- norms

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The axes over which a norm is taken; all of an array of one or two dimensions where none are given.
Shape norm_axes(const op::LinalgNorm& op, const Shape& x, const char* name = "linalg_norm") {
  Shape axes;
  if (op.axis) {
    for (int64_t a : *op.axis) axes.push_back(normalize_axis(a, x.ndim(), name));
  } else {
    for (int i = 0; i < x.ndim(); ++i) axes.push_back(i);
  }
  return axes;
}

NDArray sum_over(const NDArray& x, int64_t axis) { return nd._np_sum(x, {.axis = Shape(axis), .keepdims = true}); }

NDArray vector_norm(const NDArray& x, double ord, int64_t axis) {
  const NDArray size = nd.abs(x);
  if (ord == infinity) return nd._np_max(size, {.axis = Shape(axis), .keepdims = true});
  if (ord == -infinity) return nd._np_min(size, {.axis = Shape(axis), .keepdims = true});
  if (ord == 0) return sum_over(x != 0, axis);
  if (ord == 1) return sum_over(size, axis);
  if (ord == 2) return nd.norm(x, {.axis = Shape(axis), .keepdims = true});
  return nd.power(sum_over(nd.power(size, ord), axis), 1 / ord);
}

NDArray singular_values(const NDArray& x, const Shape& axes) {
  return nd.call_all(op::LinalgSvd{}, nd.moveaxis(x, axes, Shape(-2, -1)))[1];
}
NDArray singular_norm(const NDArray& x, const Shape& axes, bool largest) {
  const NDArray values = singular_values(x, axes);
  return largest ? nd._np_max(values, {.axis = Shape(-1)}) : nd._np_min(values, {.axis = Shape(-1)});
}

}  // namespace

void op::LinalgNorm::infer(InferContext& c) const {
  c.expect_floating();
  const Shape& x = c.shape(0);
  const Shape axes = norm_axes(*this, x, c.op());
  uint32_t mask = 0;
  for (int64_t a : axes) {
    if ((mask & bit(int(a))) != 0) c.fail_value(fmt::format("axes must differ, got {}", axes.str()));
    mask |= bit(int(a));
  }
  if (ord || (axis && axis->ndim() != 1)) {
    if (axes.ndim() < 1 || axes.ndim() > 2) {
      c.fail_value(fmt::format("a norm is that of one or two axes, got {} of shape {}", axes.str(), x.str()));
    }
  }
  if (ord && axes.ndim() == 2) {
    const double size = std::abs(*ord);
    if (size != 1 && size != 2 && size != infinity) {
      c.fail_value(fmt::format("ord must be 1, -1, 2, -2, inf or -inf for matrices, got {}", *ord));
    }
    if (size == 2 && c.dtype() != DType::float32 && c.dtype() != DType::float64) {
      c.fail_dtype(fmt::format("singular values are those of float32 or float64, got {}", name_of(c.dtype())));
    }
  }
  if (ord && std::isnan(*ord)) c.fail_value("ord must be a number, got nan");
  if (ord && (axes.ndim() == 2 || std::isinf(*ord))) expect_elements(c, mask);
  c.set_output(reduced_shape(x, mask, keepdims), c.dtype());
}

void op::LinalgNorm::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const Shape axes = norm_axes(*this, x.shape());
  NDArray y;
  if (!ord) {
    y = axes.empty() ? nd.abs(x) : nd.norm(x, {.axis = axes});
  } else if (axes.ndim() == 1) {
    y = vector_norm(x, *ord, axes[0]);
  } else if (std::abs(*ord) == 2) {
    y = singular_norm(x, axes, *ord > 0);
  } else {
    const bool columns = std::abs(*ord) == 1;
    const NDArray sums = sum_over(nd.abs(x), axes[columns ? 0 : 1]);
    const Shape other(axes[columns ? 1 : 0]);
    y = *ord > 0 ? nd._np_max(sums, {.axis = other}) : nd._np_min(sums, {.axis = other});
  }
  c.set(nd._reshape_to(y, {.shape = c.output().shape}));
}

namespace {

op::LinalgNorm norm_of(const op::NumpyNorm& op) {
  op::LinalgNorm norm{.axis = op.axis, .keepdims = op.keepdims};
  if (op.flag == -1 || op.flag == 0) norm.ord = op.ord;
  if (op.flag == 2) norm.ord = 2;  // takes the same arrays
  return norm;
}

}  // namespace

void op::NumpyNorm::infer(InferContext& c) const {
  if (flag < -2 || flag > 2) c.fail_value(fmt::format("flag must be in [-2, 2], got {}", flag));
  norm_of(*this).infer(c);
  if (flag == 2 && (axis ? axis->ndim() : c.shape(0).ndim()) != 2) {
    c.fail_value(fmt::format("singular values are those of two axes, got shape {}", c.shape(0).str()));
  }
}

void op::NumpyNorm::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const LinalgNorm norm = norm_of(*this);
  if (flag != 2) return c.set(nd.call(norm, x));
  const NDArray sum = nd._np_sum(singular_values(x, norm_axes(norm, x.shape())), {.axis = Shape(-1)});
  c.set(nd._reshape_to(sum, {.shape = c.output().shape}));
}

}  // namespace kaon

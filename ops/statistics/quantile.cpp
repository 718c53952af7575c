// quantile, percentile and median: made of elements in order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/statistics/kernels/chosen_axes.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Quantile::def = make_op_def<op::Quantile>();
constinit const OpDef op::Percentile::def = make_op_def<op::Percentile>();
constinit const OpDef op::Median::def = make_op_def<op::Median>();

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

DType quantile_dtype(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

// The result's shape; q has this shape, none for a number.
void infer_quantile(InferContext& c, const std::optional<Shape>& axis, bool keepdims, bool is_number, double q,
                    double largest) {
  if (is_number && !(q >= 0 && q <= largest)) c.fail_value(fmt::format("q must be in [0, {}], got {}", largest, q));
  const uint32_t mask = chosen_axes(axis, c.shape(0).ndim(), c.op());
  expect_elements(c, mask);
  const Shape reduced = reduced_shape(c.shape(0), mask, keepdims);
  const bool has_axes = keepdims || mask != (1u << c.shape(0).ndim()) - 1;
  Shape shape;
  if (!is_number) {
    if (c.dtype(1) == DType::boolean) c.fail_dtype("q must be numbers, got bool");
    if (c.shape(1).ndim() > 1) c.fail(fmt::format("q must have no or one dimension, got {}", c.shape(1).str()));
    shape = c.shape(1);
  }
  if (shape.empty() || has_axes) {
    for (int64_t n : reduced) shape.push_back(n);
  }
  c.set_output(shape, quantile_dtype(c.dtype()));
}

// An operator less where the shape is this one already.
NDArray reshaped(const NDArray& a, const Shape& shape) {
  return a.shape() == shape ? a : nd._reshape_to(a, {.shape = shape});
}

// a with the axes in `mask` as one, the last.
NDArray as_rows(const NDArray& a, uint32_t mask) {
  Shape order, rows;
  int64_t n = 1;
  for (int i = 0; i < a.ndim(); ++i) {
    if ((mask >> i & 1) == 0) order.push_back(i), rows.push_back(a.shape()[i]);
  }
  for (int i = 0; i < a.ndim(); ++i) {
    if ((mask >> i & 1) != 0) order.push_back(i), n *= a.shape()[i];
  }
  rows.push_back(n);
  const bool is_in_order = std::is_sorted(order.begin(), order.end());
  return reshaped(is_in_order ? a : nd.transpose(a, order), rows);
}

// Between two elements of each row, at this share of the way; the lower one where that is no way, also to infinity.
NDArray between(const NDArray& low, const NDArray& high, const NDArray& share) {
  const NDArray stays = nd.broadcast_maximum(low == high, share == 0);
  return nd.where(stays, low, low + (high - low) * share);
}

// The same at one share, which is not 0.
NDArray between(const NDArray& low, const NDArray& high, double share) {
  return nd.where(low == high, low, low + (high - low) * share);
}

// NaN in the results of rows that have one, along the last axis: their least element is NaN then, and else at most y.
NDArray with_nan(const NDArray& y, const NDArray& rows) {
  const NDArray least = nd.stop_gradient(nd.min(rows, {.axis = Shape(rows.ndim() - 1), .keepdims = true}));
  return nd.broadcast_maximum(y, least);
}

// An array of no elements, in this shape.
NDArray none_of(const NDArray& a, const Shape& shape) {
  const NDArray flat = nd._reshape_to(a, {.shape = Shape(a.size())});
  return nd._reshape_to(nd.slice_axis(flat, 0, 0, 0), {.shape = shape});
}

// The quantile q of each row.
NDArray of_number(const NDArray& rows, double q, Interpolation kind) {
  const int64_t last = rows.shape().back() - 1;
  const double at = q * double(last), part = at - std::floor(at);
  const int64_t low = int64_t(std::floor(at));
  const bool is_whole = kind == Interpolation::lower || kind == Interpolation::nearest || part == 0;
  if (is_whole || kind == Interpolation::higher) {
    const bool up = kind == Interpolation::higher ? part > 0 : kind == Interpolation::nearest && part >= 0.5;
    return nd._order(rows, {.k = 1, .first = up ? low + 1 : low})[0];
  }
  const NDArray two = nd._order(rows, {.k = 2, .first = low})[0];
  const NDArray a = nd.slice_axis(two, -1, 0, 1), b = nd.slice_axis(two, -1, 1, 2);
  return between(a, b, kind == Interpolation::midpoint ? 0.5 : part);
}

// The quantiles q (float64, 1-D) of each row, along the last axis.
NDArray of_array(const NDArray& rows, const NDArray& q, Interpolation kind) {
  const int64_t last = rows.shape().back() - 1;
  const NDArray at = q * double(last), low = nd.floor(at), part = at - low;
  const NDArray ordered = nd._order(rows, {})[0];
  const auto element = [&](const NDArray& i) { return nd.take(ordered, i, {.axis = -1}); };
  switch (kind) {
    case Interpolation::lower: return element(low);
    case Interpolation::higher: return element(nd.ceil(at));
    case Interpolation::nearest: return element(nd.floor(at + 0.5));
    default: break;
  }
  const NDArray a = element(low), b = element(low + 1.0);
  const NDArray share = kind == Interpolation::midpoint ? 0.5 * (part > 0) : part;
  return between(a, b, nd.cast(share, a.dtype()));
}

}  // namespace

// --- quantile

void op::Quantile::infer(InferContext& c) const { infer_quantile(c, axis, keepdims, q.has_value(), q.value_or(0), 1); }

void op::Quantile::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  const NDArray a = in_dtype(c.input(0), dtype);
  if (shape.size() == 0) return c.set(none_of(a, shape));
  const NDArray rows = as_rows(a, chosen_axes(axis, a.ndim(), "quantile"));
  if (q) {
    return c.set(reshaped(with_nan(of_number(rows, *q, interpolation), rows), shape));
  }
  const int64_t count = c.input(1).size();
  const NDArray list = nd._reshape_to(nd.stop_gradient(nd.cast(c.input(1), DType::float64)), {.shape = Shape(count)});
  const NDArray inside = nd.logical_and(list >= 0, list <= 1);
  const NDArray y = nd.broadcast_where(inside, with_nan(of_array(rows, list, interpolation), rows),
                                       nd.full({1}, kNan, {.dtype = dtype}));
  const NDArray table = nd._reshape_to(y, {.shape = Shape(y.size() / count, count)});
  c.set(nd._reshape_to(nd.transpose(table), {.shape = shape}));
}

// --- percentile

void op::Percentile::infer(InferContext& c) const {
  infer_quantile(c, axis, keepdims, q_scalar.has_value(), q_scalar.value_or(0), 100);
}

void op::Percentile::compose(ComposeContext& c) const {
  const op::Quantile quantile{.axis = axis, .interpolation = interpolation, .keepdims = keepdims};
  if (q_scalar) return c.set(nd.quantile(c.input(0), *q_scalar / 100, quantile));
  c.set(nd.quantile(c.input(0), nd.cast(c.input(1), DType::float64) / 100, quantile));
}

// --- median

void op::Median::infer(InferContext& c) const { infer_quantile(c, axis, keepdims, true, 0.5, 1); }

// As NumPy's: not always what quantile gives where an element is infinite.
void op::Median::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  const NDArray a = in_dtype(c.input(0), dtype);
  if (shape.size() == 0) return c.set(none_of(a, shape));
  const NDArray rows = as_rows(a, chosen_axes(axis, a.ndim(), "median"));
  const int64_t n = rows.shape().back();
  NDArray y = nd._order(rows, {.k = n % 2 == 0 ? 2 : 1, .first = (n - 1) / 2})[0];
  if (n % 2 == 0) y = nd.mean(y, {.axis = Shape(rows.ndim() - 1), .keepdims = true});
  c.set(reshaped(with_nan(y, rows), shape));
}

}  // namespace kaon

// Numbers rounded, looked up and interpolated; polynomials; differences.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/analysis/analysis.h"
#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Around::def = make_op_def<op::Around>();
constinit const OpDef op::Polyval::def = make_op_def<op::Polyval>();
constinit const OpDef op::Interp::def = make_op_def<op::Interp>();
constinit const OpDef op::IsIn::def = make_op_def<op::IsIn>();
constinit const OpDef op::EDiff1d::def = make_op_def<op::EDiff1d>();

namespace {

void expect_real_numbers(const InferContext& c) {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
}

NDArray flattened(const NDArray& x) { return nd._reshape_to(x, {.shape = Shape(x.size())}); }
NDArray truth(const NDArray& x) { return nd.cast(x, DType::boolean); }

}  // namespace

// --- around

void op::Around::infer(InferContext& c) const {
  expect_real_numbers(c);
  c.set_output(c.shape(0), c.dtype());
}

namespace {

// To the nearest whole number, halves to the even one.
NDArray rounded_to_even(const NDArray& x) {
  const NDArray below = nd.floor(x), rest = x - below;
  return below + nd.where(rest == 0.5, below % 2, rest > 0.5);
}

// To a multiple of `unit`.
NDArray rounded_integers(const NDArray& x, int64_t unit) {
  const NDArray rest = x % double(unit), below = x - rest, opposite = double(unit) - rest;
  const NDArray is_odd = (below / double(unit)) % 2;
  return below + nd.where(rest == opposite, is_odd, rest > opposite) * double(unit);
}

}  // namespace

void op::Around::compose(ComposeContext& c) const {
  const NDArray x = nd.stop_gradient(c.input());
  if (!is_floating(x.dtype())) {
    if (decimals >= 0) return c.set(x);
    const int bits = 8 * int(size_of(x.dtype())) - (is_unsigned(x.dtype()) ? 0 : 1);
    const double unit = std::pow(10.0, -decimals), end = std::ldexp(1.0, bits);
    if (unit / 2 >= end) return c.set(nd.zeros_like(x));
    if (unit < end) return c.set(rounded_integers(x, int64_t(unit)));
    // the unit itself has no place in the dtype: what is rounded up wraps, as sums do
    const NDArray wide = rounded_integers(nd.cast(x, DType::int64), int64_t(unit));
    return c.set(nd.cast(wide, x.dtype()));
  }
  const bool is_narrow = size_of(x.dtype()) == 2;
  const NDArray wide = is_narrow ? nd.cast(x, DType::float32) : x;
  const double unit = std::pow(10.0, std::abs(decimals));
  const NDArray scaled = decimals == 0 ? wide : decimals > 0 ? wide * unit : wide / unit;
  const NDArray whole = rounded_to_even(scaled);
  const NDArray y = decimals == 0 ? whole : decimals > 0 ? whole / unit : whole * unit;
  // infinities, and numbers that the scale makes infinite, have no digits there
  c.set(in_dtype(nd.where(nd.abs(scaled) < std::numeric_limits<double>::infinity(), y, wide), x.dtype()));
}

// --- polyval

void op::Polyval::infer(InferContext& c) const {
  c.expect_same_dtype();
  expect_real_numbers(c);
  c.expect_ndim(0, 1);
  c.set_output(c.shape(1), c.dtype());
}

void op::Polyval::compose(ComposeContext& c) const {
  const NDArray &p = c.input(0), &x = c.input(1);
  NDArray y = nd.zeros_like(x);
  for (int64_t i = 0; i < p.size(); ++i) {
    const NDArray coefficient = nd.slice_axis(p, 0, i, i + 1);
    const NDArray one = x.ndim() == 0 ? nd._reshape_to(coefficient, {.shape = Shape()}) : coefficient;
    y = i == 0 ? nd.broadcast_add(y, one) : nd.broadcast_add(y * x, one);
  }
  c.set(y);
}

// --- interp

void op::Interp::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(1, 1);
  c.expect_shape(2, c.shape(1));
  if (c.shape(1)[0] == 0) c.fail("needs at least one point, got " + c.describe_inputs());
  c.set_output(c.shape(0), c.dtype());
}

void op::Interp::compose(ComposeContext& c) const {
  const NDArray &x = c.input(0), &xp = c.input(1), &fp = c.input(2);
  const int64_t n = xp.size();
  const NDArray at = flattened(x);
  const NDArray first = nd.slice_axis(xp, 0, 0, 1), last = nd.slice_axis(xp, 0, n - 1, n);
  const NDArray f_first = nd.slice_axis(fp, 0, 0, 1), f_last = nd.slice_axis(fp, 0, n - 1, n);
  NDArray y = nd.broadcast_add(nd.zeros_like(at), f_last);
  if (n > 1) {
    const NDArray behind = nd.searchsorted(nd.stop_gradient(xp), nd.stop_gradient(at), {.right = true});
    const NDArray i = nd.clip(behind - 1, 0, double(n - 2));
    const NDArray x0 = nd.take(xp, i), f0 = nd.take(fp, i), x1 = nd.take(xp, i + 1), f1 = nd.take(fp, i + 1);
    const NDArray inside = f0 + (at - x0) * ((f1 - f0) / (x1 - x0));
    y = nd.where(nd.broadcast_lesser(at, last), inside, y);
  }
  const auto end = [&](const std::optional<double>& given, const NDArray& otherwise) {
    return nd.broadcast_add(nd.zeros_like(at), given ? nd.full({1}, *given, {.dtype = at.dtype()}) : otherwise);
  };
  y = nd.where(nd.broadcast_lesser(at, first), end(left, f_first), y);
  if (right) y = nd.where(nd.broadcast_greater(at, last), end(right, f_last), y);
  c.set(nd._reshape_to(nd.where(at == at, y, at), {.shape = x.shape()}));  // NaN stays
}

// --- isin

void op::IsIn::infer(InferContext& c) const {
  c.expect_same_dtype();
  expect_real_numbers(c);
  c.set_output(c.shape(0), DType::boolean);
}

void op::IsIn::compose(ComposeContext& c) const {
  const NDArray& x = c.input(0);
  NDArray found;
  if (x.size() == 0 || c.input(1).size() == 0) {
    found = nd.zeros(Shape(x.size()), {.dtype = DType::uint8});
  } else {
    const NDArray sorted = nd.sort(flattened(c.input(1))), at = flattened(x);
    found = nd.take(sorted, nd.searchsorted(sorted, at)) == at;
  }
  c.set(nd._reshape_to(truth(invert ? found == 0 : found), {.shape = x.shape()}));
}

// --- ediff1d

namespace {

int64_t ends_before(const op::EDiff1d& op, const InferContext& c) {
  return op.to_begin_arr_given ? c.shape(1).size() : op.to_begin_scalar ? 1 : 0;
}

}  // namespace

void op::EDiff1d::infer(InferContext& c) const {
  c.expect_same_dtype();
  expect_real_numbers(c);
  for (const auto& end : {to_begin_scalar, to_end_scalar}) {
    if (end) expect_holds(c, "a scalar", *end, c.dtype());
  }
  const int64_t behind = to_end_arr_given ? c.shape(c.num_inputs() - 1).size() : to_end_scalar ? 1 : 0;
  c.set_output(Shape(ends_before(*this, c) + std::max<int64_t>(c.shape(0).size() - 1, 0) + behind), c.dtype());
}

void op::EDiff1d::compose(ComposeContext& c) const {
  const NDArray x = flattened(c.input());
  const auto number = [&](double value) { return nd.full({1}, value, {.dtype = x.dtype()}); };
  std::vector<NDArray> parts;
  if (to_begin_arr_given) parts.push_back(flattened(c.input(1)));
  else if (to_begin_scalar) parts.push_back(number(*to_begin_scalar));
  parts.push_back(x.size() > 1 ? nd.diff(x) : nd.slice_axis(x, 0, 0, 0));
  if (to_end_arr_given) parts.push_back(flattened(c.input(c.num_inputs() - 1)));
  else if (to_end_scalar) parts.push_back(number(*to_end_scalar));
  c.set(parts.size() == 1 ? parts[0] : nd.concat(parts, {.dim = 0}));
}

}  // namespace kaon

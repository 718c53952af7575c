// var, std, logsumexp, isclose and allclose: made of other operators.
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

template <bool Root>
constinit const OpDef op::Deviation<Root>::def = make_op_def<op::Deviation<Root>>();
constinit const OpDef op::LogSumExp::def = make_op_def<op::LogSumExp>();
constinit const OpDef op::IsClose::def = make_op_def<op::IsClose>();
constinit const OpDef op::AllClose::def = make_op_def<op::AllClose>();

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

}  // namespace

// --- var, std

template <bool Root>
void op::Deviation<Root>::infer(InferContext& c) const {
  const DType result = dtype.value_or(is_floating(c.dtype()) ? c.dtype() : DType::float32);
  if (!is_floating(result)) c.fail_dtype(fmt::format("dtype must be one of reals, got {}", name_of(result)));
  c.set_output(reduced_shape(c.shape(0), chosen_axes(axis, c.shape(0).ndim(), c.op()), keepdims), result);
}

// The norm of what is left of x without its mean, which is summed in float64, divided by the root of the number.
template <bool Root>
void op::Deviation<Root>::compose(ComposeContext& c) const {
  const auto& [shape, result] = c.output();
  const DType dtype = c.input().dtype() == DType::float64 ? DType::float64 : wide(result);
  const NDArray x = in_dtype(c.input(), dtype);
  const uint32_t mask = chosen_axes(axis, x.ndim(), traits.name.data());
  const double count = double(std::max<int64_t>(0, reduced_size(x.shape(), mask) - ddof));
  NDArray y;
  if (mask == 0) {
    y = nd.square(x - x) / count;
  } else {
    const Shape axes = axes_of(mask);
    const NDArray norm = nd.norm(x - nd.mean(x, {.axis = axes, .keepdims = true}), {.axis = axes});
    y = Root ? norm / std::sqrt(count) : nd.square(norm) / count;
  }
  c.set(nd._reshape_to(in_dtype(y, result), {.shape = shape}));
}

template struct op::Deviation<false>;
template struct op::Deviation<true>;

// --- logsumexp

void op::LogSumExp::infer(InferContext& c) const {
  c.expect_floating();
  c.set_output(reduced_shape(c.shape(0), chosen_axes(axis, c.shape(0).ndim(), c.op()), keepdims), c.dtype());
}

void op::LogSumExp::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  const uint32_t mask = chosen_axes(axis, c.input().ndim(), "logsumexp");
  if (mask == 0) return c.set(nd._reshape_to(c.input(), {.shape = shape}));
  const NDArray x = in_dtype(c.input(), wide(dtype));
  const Shape axes = axes_of(mask);
  if (x.size() == 0) {
    return c.set(nd._reshape_to(in_dtype(nd.sum(x, {.axis = axes}) - kInfinity, dtype), {.shape = shape}));
  }
  const NDArray largest = nd.stop_gradient(nd.max(x, {.axis = axes, .keepdims = true}));
  // an infinite one would leave NaN of itself
  const NDArray m = nd.where(nd.abs(largest) < kInfinity, largest, nd.zeros_like(largest));
  const NDArray sum = nd.sum(nd.exp(x - m), {.axis = axes, .keepdims = true});
  const NDArray none = sum == 0;
  const NDArray y = nd.log(nd.where(none, nd.ones_like(sum), sum)) + m;
  c.set(nd._reshape_to(in_dtype(nd.where(none, nd.zeros_like(y) - kInfinity, y), dtype), {.shape = shape}));
}

// --- isclose, allclose

namespace {

void infer_close(InferContext& c, const Shape& shape, DType dtype) {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  const Shape broadcast = broadcast_shapes(c.shape(0), c.shape(1), c.op());
  c.set_output(shape.empty() ? broadcast : shape, dtype);
}

}  // namespace

void op::IsClose::infer(InferContext& c) const { infer_close(c, {}, DType::boolean); }

void op::IsClose::compose(ComposeContext& c) const {
  const DType own = c.input(0).dtype(), dtype = is_floating(own) ? wide(own) : DType::float64;
  const NDArray a = in_dtype(c.input(0), dtype), b = in_dtype(c.input(1), dtype), size = nd.abs(b);
  const NDArray near = nd.abs(a - b) <= size * rtol + atol;
  NDArray close = nd.maximum(a == b, near * (size < kInfinity));
  if (equal_nan) close = nd.maximum(close, (a != a) * (b != b));
  c.set(nd.cast(close, DType::boolean));
}

void op::AllClose::infer(InferContext& c) const { infer_close(c, Shape(1), DType::uint8); }

void op::AllClose::compose(ComposeContext& c) const {
  const NDArray close = nd.isclose(c.input(0), c.input(1), {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
  c.set(nd.cast(nd.all(close), DType::uint8));
}

}  // namespace kaon

// Windows, grids of positions, and other arrays made of numbers.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

template <WindowKind K>
constinit const OpDef op::Window<K>::def = make_op_def<op::Window<K>>();
constinit const OpDef op::NumpyEye::def = make_op_def<op::NumpyEye>();
constinit const OpDef op::Identity::def = make_op_def<op::Identity>();
constinit const OpDef op::Indices::def = make_op_def<op::Indices>();
constinit const OpDef op::LogSpace::def = make_op_def<op::LogSpace>();
constinit const OpDef op::FullLike::def = make_op_def<op::FullLike>();

template struct op::Window<WindowKind::blackman>;
template struct op::Window<WindowKind::hamming>;
template struct op::Window<WindowKind::hanning>;

namespace {

void expect_numbers(const InferContext& c, DType dtype) {
  if (dtype == DType::boolean) c.fail_dtype("dtype must be one of numbers, got bool");
}

}  // namespace

namespace ops {

void infer_window(std::optional<int64_t> points, DType dtype, InferContext& c) {
  if (!points || *points < 0) {
    c.fail_value(fmt::format("M must be a number of points, got {}", points ? std::to_string(*points) : "none"));
  }
  expect_numbers(c, dtype);
  c.set_output(Shape(*points), dtype);
}

void compose_window(WindowKind kind, std::optional<Device> ctx, ComposeContext& c) {
  const auto& [shape, dtype] = c.output();
  if (shape[0] < 2) return c.set(nd.ones(shape, {.dtype = dtype, .device = ctx}));
  const double step = 6.283185307179586476925 / double(shape[0] - 1);
  const NDArray x = nd.arange(shape[0], {.dtype = DType::float64, .ctx = ctx}) * step;
  NDArray y;
  switch (kind) {
    case WindowKind::blackman: y = 0.42 - 0.5 * nd.cos(x) + 0.08 * nd.cos(2 * x); break;
    case WindowKind::hamming: y = 0.54 - 0.46 * nd.cos(x); break;
    case WindowKind::hanning: y = 0.5 - 0.5 * nd.cos(x); break;
  }
  c.set(in_dtype(y, dtype));
}

}  // namespace ops

void op::NumpyEye::infer(InferContext& c) const {
  if (N < 0 || M.value_or(0) < 0) {
    c.fail_value(fmt::format("N and M must not be negative, got {} and {}", N, M.value_or(N)));
  }
  c.set_output(Shape(N, M.value_or(N)), dtype);
}

void op::NumpyEye::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  if (shape[1] == 0) return c.set(nd.zeros(shape, {.dtype = dtype, .device = ctx}));  // an Eye has N columns then
  c.set(nd.eye(N, {.M = shape[1], .k = k, .dtype = dtype, .ctx = ctx}));
}

void op::Identity::infer(InferContext& c) const {
  if (shape.ndim() != 2 || shape[0] != shape[1] || !shape.is_known()) {
    c.fail_value(fmt::format("shape must be that of a square matrix, got {}", shape.str()));
  }
  c.set_output(shape, dtype);
}

void op::Identity::compose(ComposeContext& c) const {
  const DType made = dtype == DType::boolean ? DType::uint8 : dtype;
  c.set(in_dtype(nd.eye(shape[0], {.dtype = made, .ctx = ctx}), dtype));
}

void op::Indices::infer(InferContext& c) const {
  if (!dimensions.is_known() || dimensions.ndim() >= Shape::max_ndim) {
    c.fail_value(fmt::format("dimensions must be at most {} sizes, none negative, got {}", Shape::max_ndim - 1,
                             dimensions.str()));
  }
  expect_numbers(c, dtype);
  Shape out(dimensions.ndim());
  for (int64_t n : dimensions) out.push_back(n);
  c.set_output(out, dtype);
}

void op::Indices::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  if (shape.size() == 0) return c.set(nd.zeros(shape, {.dtype = dtype, .device = ctx}));
  std::vector<NDArray> grids;
  for (int i = 0; i < dimensions.ndim(); ++i) {
    Shape along = Shape::filled(dimensions.ndim(), 1);
    along[i] = dimensions[i];
    const NDArray positions = nd.arange(dimensions[i], {.dtype = dtype, .ctx = ctx});
    grids.push_back(nd.broadcast_to(nd._reshape_to(positions, {.shape = along}), dimensions));
  }
  c.set(nd.stack(grids));
}

void op::LogSpace::infer(InferContext& c) const {
  if (num < 0) c.fail_value(fmt::format("num must not be negative, got {}", num));
  expect_numbers(c, dtype);
  c.set_output(Shape(num), dtype);
}

void op::LogSpace::compose(ComposeContext& c) const {
  const NDArray x = nd.linspace(start, stop, num, {.endpoint = endpoint, .dtype = DType::float64, .ctx = ctx});
  c.set(in_dtype(nd.power(base, x), dtype));
}

void op::FullLike::infer(InferContext& c) const {
  const DType result = dtype.value_or(c.dtype());
  expect_holds(c, "fill_value", fill_value, result);
  c.set_output(c.shape(0), result);
}

void op::FullLike::compose(ComposeContext& c) const {
  c.set(nd.full(c.output().shape, fill_value, {.dtype = c.output().dtype}));
}

}  // namespace kaon

// nan_to_num, and where with arms that broadcast or are numbers.
#include <fmt/format.h>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/numeric/kernels/real_kernels.h"
#include "kaon/ops/numeric/kernels/real_value.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::NanToNum::def = make_op_def<op::NanToNum>();
constinit const OpDef op::BroadcastWhere::def = make_op_def<op::BroadcastWhere>();
template <bool First>
constinit const OpDef op::WhereScalar<First>::def = make_op_def<op::WhereScalar<First>>();
constinit const OpDef op::WhereScalars::def = make_op_def<op::WhereScalars>();

// --- nan_to_num

void op::NanToNum::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd.where(nd.isfinite(g.input(0)), g.head(), nd.zeros_like(g.head())));
}

void run_cpu(const op::NanToNum& op, KernelContext& c) {
  const TensorView &x = c.in(0), &out = c.out();
  if (!is_floating(x.dtype)) return copy_bytes(c.run, x.data, out.data, out.bytes());
  struct Call {
    NanReplacement<float> in_float;
    NanReplacement<double> in_double;
  } call{nan_replacement<float>(op, x.dtype), nan_replacement<double>(op, x.dtype)};
  static constexpr PointwiseKernels kernels{
      .float32 = [](const void* attrs, const float* const* in, float* y,
                    size_t n) { replace_nan(static_cast<const Call*>(attrs)->in_float, in[0], y, n); },
      .float64 =
          [](const void* attrs, const void* const* in, void* y, size_t n) {
            const NanReplacement<double> r = static_cast<const Call*>(attrs)->in_double;
            for (size_t i = 0; i < n; ++i) static_cast<double*>(y)[i] = r(static_cast<const double*>(in[0])[i]);
          }};
  run_pointwise(kernels, &call, c);
}

// --- where

namespace {

NDArray spread(const NDArray& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape padded = Shape::filled(shape.ndim() - x.ndim(), 1), axes, sizes;
  for (int64_t n : x.shape()) padded.push_back(n);
  for (int i = 0; i < shape.ndim(); ++i) {
    if (padded[i] != shape[i]) axes.push_back(i), sizes.push_back(shape[i]);
  }
  const NDArray same = nd._reshape_to(x, {.shape = padded});
  return axes.empty() ? same : nd.broadcast_axis(same, axes, sizes);
}

NDArray chosen(const NDArray& condition, const NDArray& x, const NDArray& y, const Shape& shape) {
  return nd.where(spread(condition, shape), spread(x, shape), spread(y, shape));
}

// A number as an array that repeats.
NDArray number(double value, int ndim, DType dtype) { return nd.full(Shape::filled(ndim, 1), value, {.dtype = dtype}); }

}  // namespace

void op::BroadcastWhere::infer(InferContext& c) const {
  if (c.dtype(1) != c.dtype(2)) {
    c.fail_dtype(
        fmt::format("x and y must have one dtype, got {} and {}; use cast", name_of(c.dtype(1)), name_of(c.dtype(2))));
  }
  const Shape arms = broadcast_shapes(c.shape(1), c.shape(2), c.op());
  c.set_output(broadcast_shapes(c.shape(0), arms, c.op()), c.dtype(1));
}

void op::BroadcastWhere::compose(ComposeContext& c) const {
  c.set(chosen(c.input(0), c.input(1), c.input(2), c.output().shape));
}

template <bool First>
void op::WhereScalar<First>::infer(InferContext& c) const {
  expect_holds(c, "scalar", scalar, c.dtype(1));
  if (!is_floating(c.dtype(1)) && scalar != double(int64_t(scalar))) {
    c.fail_value(fmt::format("scalar must be a whole number for {}, got {}", name_of(c.dtype(1)), scalar));
  }
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), c.dtype(1));
}

template <bool First>
void op::WhereScalar<First>::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  const NDArray &array = c.input(1), constant = number(scalar, shape.ndim(), dtype);
  c.set(chosen(c.input(0), First ? constant : array, First ? array : constant, shape));
}

void op::WhereScalars::infer(InferContext& c) const { c.set_output(c.shape(0), DType::float32); }

void op::WhereScalars::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  c.set(chosen(c.input(), number(x, shape.ndim(), dtype), number(y, shape.ndim(), dtype), shape));
}

template struct op::WhereScalar<false>;
template struct op::WhereScalar<true>;

}  // namespace kaon

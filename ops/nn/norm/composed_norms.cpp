// Normalisations that are made of others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/nn/norm/norm.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

bool is_narrow(const NDArray& x) { return x.dtype() == DType::float16 || x.dtype() == DType::bfloat16; }

// f(x) computed in float32 where x has 16 bits: their squares would leave the range of float16.
template <class F>
NDArray in_float32(const NDArray& x, F&& f) {
  return is_narrow(x) ? nd.cast(f(nd.cast(x, DType::float32)), x.dtype()) : f(x);
}

// The root of the sum of squares over `axes`, which stay as 1: one pass over x, and a gradient of 0 at 0.
NDArray length_over(const NDArray& x, const Shape& axes) { return nd.norm(x, {.axis = axes, .keepdims = true}); }

// Sets output 0 to (x - mean) / sqrt(var + eps) over the last axis of x seen as `rows`, with gamma and beta along axis
// 1 of them; outputs 1 and 2, where there are any, to the mean and the root.
void set_normalized_rows(ComposeContext& c, const Shape& rows, double eps, bool output_mean_var) {
  const NDArray &x = c.input(0), &gamma = c.input(1), &beta = c.input(2);
  if (x.size() == 0) {
    c.set(x);
    for (int i = 1; output_mean_var && i < 3; ++i) c.set(i, nd.zeros(c.output(i).shape, {.dtype = x.dtype()}));
    return;
  }
  const auto per_row = [&](const NDArray& a) {
    return nd.broadcast_to(shaped(a, {1, rows[1], 1}), Shape(rows[0], rows[1], 1));
  };
  const std::vector<NDArray> y = nd.LayerNorm_mean_var(shaped(x, rows), per_row(gamma), per_row(beta), {.eps = eps});
  c.set(shaped(y[0], x.shape()));
  for (int i = 1; output_mean_var && i < 3; ++i) {
    const NDArray statistic = shaped(y[size_t(i)], c.output(i).shape);
    c.set(i, is_narrow(x) ? nd.cast(statistic, x.dtype()) : statistic);
  }
}

}  // namespace

// --- SyncBatchNorm

constinit const OpDef op::SyncBatchNorm::def = make_op_def<op::SyncBatchNorm>();

void op::SyncBatchNorm::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 2);
  const Shape channels(c.shape(0)[1]);
  for (int i = 1; i < 5; ++i) c.expect_shape(i, channels);
  c.set_output(c.shape(0), c.dtype());
  for (int i = 1; i < num_outputs(); ++i) c.set_output(i, channels, c.dtype(1));
}

void op::SyncBatchNorm::compose(ComposeContext& c) const {
  const op::BatchNorm norm{
      .eps = eps, .momentum = momentum, .fix_gamma = fix_gamma, .use_global_stats = use_global_stats};
  if (!output_mean_var) {
    return c.set(nd.BatchNorm(c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), norm));
  }
  const std::vector<NDArray> y =
      nd.BatchNorm_mean_var(c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), norm);
  c.set(0, y[0]);
  c.set(1, y[1]);
  c.set(2, 1.0 / nd.square(y[2]) - eps);
}

// --- BatchNormWithReLU

constinit const OpDef op::BatchNormWithReLU::def = make_op_def<op::BatchNormWithReLU>();

void op::BatchNormWithReLU::infer(InferContext& c) const {
  if (!(eps >= 0)) c.fail_value(fmt::format("eps must not be negative, got {}", eps));
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  const Shape data = c.shape(0), channels(data[normalize_axis(axis, data.ndim(), c.op())]);
  for (int i = 1; i < 5; ++i) {
    c.expect_shape(i, channels);
    if (c.dtype(i) == c.dtype(1) &&
        (c.dtype(i) == c.dtype() || (c.dtype(i) == DType::float32 && size_of(c.dtype()) == 2)))
      continue;
    c.fail_dtype(
        fmt::format("gamma, beta and statistics must have the dtype of data (16-bit data also float32), got {}",
                    name_of(c.dtype(i))));
  }
  c.set_output(data, c.dtype());
  for (int i = 1; i < num_outputs(); ++i) c.set_output(i, channels, c.dtype(1));
}

void op::BatchNormWithReLU::compose(ComposeContext& c) const {
  const op::BatchNorm norm{.eps = eps,
                           .momentum = momentum,
                           .fix_gamma = fix_gamma,
                           .use_global_stats = use_global_stats,
                           .axis = axis,
                           .cudnn_off = cudnn_off,
                           .min_calib_range = min_calib_range,
                           .max_calib_range = max_calib_range};
  if (!output_mean_var) {
    return c.set(nd.relu(nd.BatchNorm(c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), norm)));
  }
  const std::vector<NDArray> y =
      nd.BatchNorm_mean_var(c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), norm);
  c.set(0, nd.relu(y[0]));
  for (int i : {1, 2}) c.set(i, y[size_t(i)]);
}

// --- InstanceNorm

constinit const OpDef op::InstanceNorm::def = make_op_def<op::InstanceNorm>();

void op::InstanceNorm::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(0, 3);
  for (int i : {1, 2}) c.expect_shape(i, Shape(c.shape(0)[1]));
  c.set_output(c.shape(0), c.dtype());
}

void op::InstanceNorm::compose(ComposeContext& c) const {
  const Shape& x = c.input().shape();
  set_normalized_rows(c, {x[0], x[1], x.product(2, x.ndim())}, eps, false);
}

// --- GroupNorm

constinit const OpDef op::GroupNorm::def = make_op_def<op::GroupNorm>();

void op::GroupNorm::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(0, 3);
  if (num_groups < 1 || c.shape(0)[1] % num_groups != 0) {
    c.fail_value(fmt::format("num_groups must divide the {} channels, got {}", c.shape(0)[1], num_groups));
  }
  for (int i : {1, 2}) c.expect_shape(i, Shape(num_groups));
  c.set_output(c.shape(0), c.dtype());
  for (int i = 1; i < num_outputs(); ++i) c.set_output(i, {c.shape(0)[0], num_groups}, c.dtype());
}

void op::GroupNorm::compose(ComposeContext& c) const {
  const Shape& x = c.input().shape();
  set_normalized_rows(c, {x[0], num_groups, x[1] / num_groups * x.product(2, x.ndim())}, eps, output_mean_var);
}

// --- L2Normalization

constinit const OpDef op::L2Normalization::def = make_op_def<op::L2Normalization>();

void op::L2Normalization::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, mode == L2Mode::instance ? 1 : 3);
  c.set_output(c.shape(0), c.dtype());
}

void op::L2Normalization::compose(ComposeContext& c) const {
  const int first = mode == L2Mode::spatial ? 2 : 1;
  const int last = mode == L2Mode::channel ? 2 : c.input().ndim();
  c.set(in_float32(c.input(), [&](const NDArray& x) {
    if (first == last) return x / nd.sqrt(nd.square(x) + eps);
    Shape axes;
    for (int i = first; i < last; ++i) axes.push_back(i);
    return x / nd.sqrt(nd.square(length_over(x, axes)) + eps);
  }));
}

// --- LRN

constinit const OpDef op::LRN::def = make_op_def<op::LRN>();

void op::LRN::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 2);
  if (nsize < 1) c.fail_value(fmt::format("nsize must be at least 1, got {}", nsize));
  c.set_output(c.shape(0), c.dtype());
}

void op::LRN::compose(ComposeContext& c) const {
  c.set(in_float32(c.input(), [&](const NDArray& x) {
    if (x.size() == 0) return x;
    const Shape& s = x.shape();
    const int away = nsize / 2;
    const NDArray planes = shaped(nd.square(x), {s[0], 1, s[1], s.product(2, s.ndim())});
    const NDArray sums =
        nd.Pooling(planes, {.kernel = {2 * away + 1, 1}, .pool_type = PoolType::sum, .pad = {away, 0}});
    return x * nd.power(knorm + alpha / nsize * nd.reshape_like(sums, x), -beta);
  }));
}

// --- RMSNorm

constinit const OpDef op::RMSNorm::def = make_op_def<op::RMSNorm>();

void op::RMSNorm::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  c.expect_shape(1, Shape(c.shape(0)[normalize_axis(axis, c.shape(0).ndim(), c.op())]));
  c.set_output(c.shape(0), c.dtype());
}

void op::RMSNorm::compose(ComposeContext& c) const {
  const int n = c.input().ndim(), at = normalize_axis(axis, n, "RMSNorm");
  Shape along = Shape::filled(n, 1);
  along[at] = c.input().shape()[at];
  c.set(in_float32(c.input(), [&](const NDArray& x) {
    const NDArray gamma = shaped(nd.cast(c.input(1), x.dtype()), along);
    const double n = double(std::max<int64_t>(1, along[at]));
    return gamma * x * nd.rsqrt(nd.square(length_over(x, Shape(at))) / n + eps);
  }));
}

// --- moments

constinit const OpDef op::Moments::def = make_op_def<op::Moments>();

void op::Moments::infer(InferContext& c) const {
  c.expect_floating();
  Shape shape = c.shape(0);
  if (axes.empty()) c.fail_value("axes must name at least one axis");
  for (int64_t axis : axes) {
    int64_t& size = shape[normalize_axis(axis, shape.ndim(), c.op())];
    if (size < 0) c.fail_value(fmt::format("axes {} name an axis twice", axes.str()));
    size = -1;
  }
  Shape kept;
  for (int64_t size : shape) {
    if (size >= 0 || keepdims) kept.push_back(size < 0 ? 1 : size);
  }
  if (kept.empty()) kept = Shape(1);
  for (int i : {0, 1}) c.set_output(i, kept, c.dtype());
}

void op::Moments::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const NDArray wide = is_narrow(x) ? nd.cast(x, DType::float32) : x;
  const NDArray mean = nd.mean(wide, {.axis = axes, .keepdims = true});
  const NDArray variance = nd.mean(nd.square(wide - mean), {.axis = axes, .keepdims = true});
  const auto result = [&](const NDArray& a) {
    return shaped(is_narrow(x) ? nd.cast(a, x.dtype()) : a, c.output().shape);
  };
  c.set(0, result(mean));
  c.set(1, result(variance));
}

}  // namespace kaon

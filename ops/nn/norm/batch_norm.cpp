#include "kaon/ops/compose/conform.h"
#include "kaon/ops/nn/norm/norm.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"
#include "kaon/ops/nn/norm/kernels/norm_gradient.h"
#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

template <class T>
void normalize_channels(RunContext& run, const ChannelSizes& s, const T* x, const T* mean, const T* inverse,
                        const T* gamma, const T* beta, T* y) {
  T* const scale = static_cast<T*>(run.workspace(size_t(s.channels) * sizeof(T)));
  for (int64_t i = 0; i < s.channels; ++i) scale[i] = channel_scale(gamma ? gamma[i] : T(1), inverse[i]);
  channel_affine<T>(run, s, nullptr, x, mean, nullptr, scale, beta, y);
}
template void normalize_channels(RunContext&, const ChannelSizes&, const float*, const float*, const float*,
                                 const float*, const float*, float*);
template void normalize_channels(RunContext&, const ChannelSizes&, const double*, const double*, const double*,
                                 const double*, const double*, double*);

namespace {

// 16-bit data may come with float32 statistics; otherwise there is one dtype. Gives the dtype of the statistics.
DType check_dtypes(const InferContext& c, int data, int first_other) {
  c.expect_floating(data);
  const DType other = c.dtype(first_other);
  for (int i = first_other + 1; i < c.num_inputs(); ++i) {
    if (c.dtype(i) != other) {
      c.fail_dtype(fmt::format("gamma, beta and statistics must have one dtype, got {} and {}", name_of(other),
                               name_of(c.dtype(i))));
    }
  }
  if (other != c.dtype(data) && !(is_half(c.dtype(data)) && other == DType::float32)) {
    c.fail_dtype(
        fmt::format("data of {} takes gamma, beta and statistics of the same dtype (16-bit data also float32), got {}",
                    name_of(c.dtype(data)), name_of(other)));
  }
  return other;
}

// The normalisation as arrays with one number per channel. `inverse` is negative if the moving values were used.
NormBackward terms(int axis, bool fix_gamma, const NDArray& head, const NDArray& data, const NDArray& gamma,
                   const NDArray& mean, const NDArray& inverse) {
  const int at = normalize_axis(axis, data.ndim(), "BatchNorm");
  Shape channels = Shape::filled(data.ndim(), 1);
  channels[at] = data.shape()[at];
  const auto per_channel = [&](const NDArray& a) { return nd._reshape_to(a, {.shape = channels}); };
  const DType dtype = mean.dtype();
  const NDArray signed_scale = per_channel(inverse);
  NormBackward f;
  f.head = in_dtype(head, dtype), f.x = in_dtype(data, dtype);
  if (!fix_gamma) f.gamma = per_channel(gamma);
  f.mean = per_channel(mean), f.scale = nd.abs(signed_scale), f.varies = signed_scale > 0;
  f.statistics_axes = f.affine_axes = axes_but(data.ndim(), at);
  return f;
}

template <class T>
void forward(const op::BatchNorm& op, KernelContext& c) {
  const ChannelSizes s = channel_sizes(c.in(0), op.axis);
  const size_t bytes = size_t(s.channels) * sizeof(T);
  const auto array = [&](int output) {
    return static_cast<T*>(c.out(output).data ? c.out(output).data : c.run.workspace(bytes));
  };
  c.run.updates_are_whole = true;  // until all that may fail is done
  T* const mean = array(1);
  T* const inverse = array(op.signed_inverse());
  T* const moving_mean = c.in(3).as<T>();
  T* const moving_var = c.in(4).as<T>();
  const bool of_batch = c.training && !op.use_global_stats && s.per_channel() > 0;
  T* const variance = of_batch ? static_cast<T*>(c.run.workspace(bytes)) : nullptr;
  if (of_batch) {
    channel_moments(c.run, s, c.in(0).as<T>(), mean, variance);
    for (int64_t i = 0; i < s.channels; ++i) inverse[i] = inverse_deviation(variance[i], op.eps);
  } else {
    for (int64_t i = 0; i < s.channels; ++i) {
      mean[i] = moving_mean[i];
      inverse[i] = -inverse_deviation(moving_var[i], op.eps);
    }
  }
  normalize_channels(c.run, s, c.in(0).as<T>(), mean, inverse, op.fix_gamma ? nullptr : c.in(1).as<T>(),
                     c.in(2).as<T>(), c.out(0).as<T>());
  if (T* const shown = op.output_mean_var ? c.out(2).as<T>() : nullptr) {
    for (int64_t i = 0; i < s.channels; ++i) shown[i] = std::abs(inverse[i]);
  }
  if (!of_batch || statistics_move_with_gradients()) return;
  c.run.updates_are_whole = false;
  for (int64_t i = 0; i < s.channels; ++i) {
    moving_mean[i] = moved(moving_mean[i], mean[i], op.momentum);
    moving_var[i] = moved(moving_var[i], variance[i], op.momentum);
  }
  c.run.updates_are_whole = true;
}

template <class T>
void backward(const op::BackwardBatchNorm& op, KernelContext& c) {
  const TensorView& data = c.in(1);
  const ChannelSizes s = channel_sizes(data, op.axis);
  const size_t bytes = size_t(s.channels) * sizeof(T);
  const T* const gamma = c.in(2).as<T>();
  const T* const mean = c.in(3).as<T>();
  const T* const inverse = c.in(4).as<T>();
  T* const sums = static_cast<T*>(c.run.workspace(5 * bytes));
  T* const head_sum = sums;
  T* const product_sum = sums + s.channels;
  T* const a = sums + 2 * s.channels;
  T* const b = sums + 3 * s.channels;
  T* const shift = sums + 4 * s.channels;
  channel_products(c.run, s, c.in(0).as<T>(), data.as<T>(), mean, head_sum, product_sum);
  for (int64_t i = 0; i < s.channels; ++i) {
    const auto g =
        channel_gradient(op.fix_gamma ? T(1) : gamma[i], inverse[i], head_sum[i], product_sum[i], s.per_channel());
    a[i] = g.a, b[i] = g.b, shift[i] = g.shift;
    if (c.out(1).data) c.out(1).as<T>()[i] = op.fix_gamma ? T(0) : g.gamma;
    if (c.out(2).data) c.out(2).as<T>()[i] = head_sum[i];
  }
  if (c.out(0).data) {
    channel_affine<T>(c.run, s, c.in(0).as<T>(), data.as<T>(), mean, a, b, shift, c.out(0).as<T>());
  }
}

}  // namespace

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

constinit const OpDef op::BatchNorm::def = make_op_def<op::BatchNorm>();
constinit const OpDef op::BackwardBatchNorm::def = make_op_def<op::BackwardBatchNorm>();

void op::BatchNorm::infer(InferContext& c) const {
  if (!(eps >= 0)) c.fail_value(fmt::format("eps must not be negative, got {}", eps));
  c.expect_ndim_at_least(0, 1);
  const DType other = check_dtypes(c, 0, 1);
  const Shape data = c.shape(0);
  const Shape channels(data[normalize_axis(axis, data.ndim(), "BatchNorm")]);
  for (int i = 1; i < 5; ++i) c.expect_shape(i, channels);
  c.set_output(0, data, c.dtype());
  for (int i = 1; i < num_outputs(); ++i) c.set_output(i, channels, other);
}

// At hidden outputs something arrives where the gradient of the gradient is taken.
void op::BatchNorm::grad(GradContext& g) const {
  if (!(g.wants(0) || g.wants(1) || g.wants(2))) return;
  NDArray dx;
  const int last = signed_inverse();
  if (g.has_head(0)) {
    const std::vector<NDArray> d = nd._backward_BatchNorm(g.head(), g.input(0), g.input(1), g.output(1), g.output(last),
                                                          {.fix_gamma = fix_gamma, .axis = axis});
    dx = d[0];
    if (!use_global_stats && statistics_move_with_gradients()) {
      nd.call_all(MoveStatistics{.eps = eps, .momentum = momentum}, g.input_like(3), g.input_like(4), g.output(1),
                  g.output(last));
    }
    for (int i = 1; i < 3; ++i) {
      if (g.wants(i)) g.set(i, d[size_t(i)]);
    }
  }
  if (g.wants(0) && (g.has_head(1) || g.has_head(2) || g.has_head(last))) {
    const NormBackward f = terms(axis, fix_gamma, g.input(0), g.input(0), g.input(1), g.output(1), g.output(last));
    const auto arrived = [&](int i) {
      return g.has_head(i) ? nd._reshape_to(g.head(i), {.shape = f.mean.shape()}) : NDArray();
    };
    NDArray at_inverse = arrived(last);
    if (last != 2 && g.has_head(2)) at_inverse = at_inverse.defined() ? at_inverse + arrived(2) : arrived(2);
    const NDArray more = in_dtype(through_statistics(f, arrived(1), at_inverse), g.input_like(0).dtype());
    dx = dx.defined() ? dx + more : more;
  }
  if (g.wants(0) && dx.defined()) g.set(0, dx);
}

void run_cpu(const op::BatchNorm& op, KernelContext& context) {
  // Predictions may run at the same time: they must not write the moving statistics, not even unchanged.
  const bool moves = context.training && !op.use_global_stats && !statistics_move_with_gradients();
  const uint32_t updated = moves ? bit(3) | bit(4) : 0;
  in_float_or_double(
      context, [&]<class T>(KernelContext& c) { forward<T>(op, c); }, updated);
}

void op::BackwardBatchNorm::infer(InferContext& c) const {
  c.expect_ndim_at_least(1, 1);
  if (c.dtype(0) != c.dtype(1)) c.fail_dtype("head and data must have one dtype");
  const DType other = check_dtypes(c, 1, 2);
  const Shape data = c.shape(1);
  const Shape channels(data[normalize_axis(axis, data.ndim(), "BatchNorm")]);
  c.expect_shape(0, data);
  for (int i = 2; i < 5; ++i) c.expect_shape(i, channels);
  c.set_output(0, data, c.dtype(1));
  c.set_output(1, channels, other);
  c.set_output(2, channels, other);
}

void op::BackwardBatchNorm::grad(GradContext& g) const {
  const NDArray& inverse = g.input(4);
  const NormBackward f = terms(axis, fix_gamma, g.input(0), g.input(1), g.input(2), g.input(3), inverse);
  const auto arrived = [&](int i) {
    return g.has_head(i) ? nd._reshape_to(g.head(i), {.shape = f.mean.shape()}) : NDArray();
  };
  const NDArray u = g.has_head(0) ? in_dtype(g.head(0), inverse.dtype()) : NDArray();
  NormSecond d = second_gradient(f, u, arrived(1), arrived(2));
  if (d.scale.defined()) d.scale = nd._reshape_to(d.scale, {.shape = inverse.shape()}) * nd.sign(inverse);
  const NDArray* const results[] = {&d.head, &d.x, &d.gamma, &d.mean, &d.scale};
  for (int i = 0; i < 5; ++i) {
    const NDArray& r = *results[i];
    if (!g.wants(i) || !r.defined()) continue;
    g.set(i, i < 2 ? in_dtype(r, g.input_like(i).dtype()) : nd._reshape_to(r, {.shape = inverse.shape()}));
  }
}

void run_cpu(const op::BackwardBatchNorm& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) { backward<T>(op, c); });
}

}  // namespace kaon

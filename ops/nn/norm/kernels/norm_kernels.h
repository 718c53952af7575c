// The loops of BatchNorm and LayerNorm. T: float, double.
#pragma once

#include <math.h>

#include <cstdint>

#include "kaon/engine/run_context.h"
#include "kaon/ops/host_device.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Data as (outer, channels, inner); inner == 1 is the channels-last case.
struct ChannelSizes {
  int64_t outer = 0, channels = 0, inner = 0;
  int64_t per_channel() const { return outer * inner; }
};

// The data of a BatchNorm in memory order: with channels_last (N, H, W, C), the channels follow the normalised axis
// unless it is axis 1.
inline ChannelSizes channel_sizes(const TensorView& data, int axis) {
  axis = normalize_axis(axis, data.shape.ndim(), "BatchNorm");
  Shape s = data.shape;
  int at = axis;
  if (data.layout == Layout::channels_last) {
    s = Shape(s[0], s[2], s[3], s[1]);
    at = axis == 0 ? 0 : axis == 1 ? 3 : axis - 1;
  }
  return {.outer = s.product(0, at), .channels = s[at], .inner = s.product(at + 1, s.ndim())};
}

// A statistic after a batch.
template <class T>
KAON_HOST_DEVICE T moved(T moving, T of_batch, double momentum) {
  return T(double(moving) * momentum + double(of_batch) * (1 - momentum));
}

// 1 / sqrt(var + eps)
template <class T>
KAON_HOST_DEVICE T inverse_deviation(T variance, double eps) {
  return T(1 / ::sqrt(double(variance) + eps));
}

// Of an inverse_deviation().
template <class T>
KAON_HOST_DEVICE T variance_of(T inverse, double eps) {
  return T(1 / (double(inverse) * double(inverse)) - eps);
}

// sqrt(var + eps) of n numbers with this sum of squared distances from their mean.
template <class T>
KAON_HOST_DEVICE T row_deviation(T squares, int64_t n, double eps) {
  return T(::sqrt(double(squares) / double(n) + eps));
}

// gamma |inverse|
template <class T>
KAON_HOST_DEVICE T channel_scale(T gamma, T inverse) {
  return gamma * (inverse < 0 ? -inverse : inverse);
}

// The coefficients of the gradients of a channel of `count` elements: dx = a head + b (x - mean) + shift; and gamma's.
template <class T>
struct ChannelGradient {
  T a, b, shift, gamma;
};
// product_sum: of head (x - mean). dx = a (head - mean of head - normal * mean of head * normal), with normal =
// (x - mean) scale; the two means are 0 where the moving values were used (inverse < 0).
template <class T>
KAON_HOST_DEVICE ChannelGradient<T> channel_gradient(T gamma, T inverse, T head_sum, T product_sum, int64_t count) {
  const T scale = inverse < 0 ? -inverse : inverse, a = gamma * scale, per = inverse > 0 ? a / T(count) : T(0);
  return {a, -per * product_sum * scale * scale, -per * head_sum, product_sum * scale};
}

// Count, mean, and sum of squared distances from the mean of some numbers.
template <class T>
struct Moments {
  T count, mean, squares;
};
template <class T>
KAON_HOST_DEVICE Moments<T> merge(const Moments<T>& a, const Moments<T>& b) {
  const T count = a.count + b.count;
  if (!(count > 0)) return a;
  const T delta = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + delta * part, a.squares + b.squares + delta * delta * a.count * part};
}

// y = gamma (x - mean) |inverse| + beta; gamma null: 1.
template <class T>
void normalize_channels(RunContext& run, const ChannelSizes& s, const T* x, const T* mean, const T* inverse,
                        const T* gamma, const T* beta, T* y);

// mean[c] and the biased variance[c] of every channel, in one pass over memory: pieces give their own moments, which
// are merged in order.
template <class T>
void channel_moments(RunContext& run, const ChannelSizes& s, const T* x, T* mean, T* variance);

// head_sum[c] = sum of head, product_sum[c] = sum of head (x - mean[c]).
template <class T>
void channel_products(RunContext& run, const ChannelSizes& s, const T* head, const T* x, const T* mean, T* head_sum,
                      T* product_sum);

// out = b[c] (x - mean[c]) + shift[c], and + a[c] head when head is not null.
template <class T>
void channel_affine(RunContext& run, const ChannelSizes& s, const T* head, const T* x, const T* mean, const T* a,
                    const T* b, const T* shift, T* out);

// gamma and beta: a number for each column, or for each row.
template <class T>
struct RowAffine {
  const T *gamma, *beta;
  bool per_row;
  // those of the rows from this one on
  RowAffine from_row(int64_t row) const {
    const int64_t at = per_row ? row : 0;
    return {gamma + at, beta ? beta + at : nullptr, per_row};
  }
};

// y = (x - mean) / std * gamma + beta for each of `rows` rows; writes mean and std = sqrt(var + eps) of each.
template <class T>
void normalize_rows(RunContext& run, int64_t rows, int64_t columns, const T* x, const RowAffine<T>& affine, double eps,
                    T* y, T* mean, T* std);

// The gradients of x, gamma and beta; each may be null.
template <class T>
void normalize_rows_backward(RunContext& run, int64_t rows, int64_t columns, const T* head, const T* x,
                             const RowAffine<T>& affine, const T* mean, const T* std, T* dx, T* dgamma, T* dbeta);

}  // namespace kaon::ops

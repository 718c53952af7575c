// The loops behind BatchNorm and LayerNorm. T: float, double.
#pragma once

#include <cstdint>

#include "kaon/engine/run_context.h"
#include "kaon/ops/view.h"

namespace kaon {

// Data as (outer, channels, inner); inner == 1 is the channels-last case.
struct ChannelSizes {
  int64_t outer = 0, channels = 0, inner = 0;
  int64_t per_channel() const { return outer * inner; }
};

// The data of a BatchNorm as it lies in memory.
ChannelSizes channel_sizes(const TensorView& data, int axis);

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

// y = (x - mean) / std * gamma + beta for each of `rows` rows; writes mean and std = sqrt(var + eps) of each.
template <class T>
void normalize_rows(RunContext& run, int64_t rows, int64_t columns, const T* x, const T* gamma, const T* beta,
                    double eps, T* y, T* mean, T* std);

// The gradients of x, gamma and beta; each may be null.
template <class T>
void normalize_rows_backward(RunContext& run, int64_t rows, int64_t columns, const T* head, const T* x, const T* gamma,
                             const T* mean, const T* std, T* dx, T* dgamma, T* dbeta);

}  // namespace kaon

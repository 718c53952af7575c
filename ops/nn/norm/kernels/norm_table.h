// The innermost loops of the normalisations, as one table per element type for the running processor.
#pragma once

#include "kaon/ops/nn/norm/kernels/norm_kernels.h"

namespace kaon::ops {

template <class T>
struct ChannelAffine {
  const T *head, *x, *mean, *a, *b, *shift;
  T* out;
};

template <class T>
struct NormTable {
  // rows of innermost channels: mean and sum of squared distances; sums of head and of head times distance
  void (*row_moments)(const T* x, int64_t rows, int64_t channels, T* mean, T* squares);
  void (*row_products)(const T* head, const T* x, const T* mean, int64_t rows, int64_t channels, T* heads, T* products);
  // the same for one channel whose elements are runs; the moments are final
  void (*plane_moments)(const T* x, const ChannelSizes& s, int64_t channel, T* mean, T* variance);
  void (*plane_products)(const T* head, const T* x, const ChannelSizes& s, int64_t channel, T mean, T* heads,
                         T* products);
  // runs, or rows, [begin, end)
  void (*affine_planes)(const ChannelAffine<T>& f, const ChannelSizes& s, int64_t begin, int64_t end);
  void (*affine_rows)(const ChannelAffine<T>& f, const ChannelSizes& s, int64_t begin, int64_t end);
  void (*layer_rows)(int64_t rows, int64_t columns, const T* x, const RowAffine<T>& affine, double eps, T* y, T* mean,
                     T* std);
  // dgamma and dbeta get the sums of these rows, or with per_row a number for each
  void (*layer_rows_backward)(int64_t rows, int64_t columns, const T* head, const T* x, const RowAffine<T>& affine,
                              const T* mean, const T* std, T* dx, T* dgamma, T* dbeta);
};

template <class T>
const NormTable<T>& norm_table();
template <>
const NormTable<float>& norm_table();
template <>
const NormTable<double>& norm_table();

}  // namespace kaon::ops

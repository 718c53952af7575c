// The loops of Pooling.
#pragma once

#include "kaon/ops/nn/pooling/kernels/pooling_window.h"

namespace kaon::ops {

// `in_channels` of the geometry is the number of channels. All images have one layout.
template <class T>
struct PoolJob {
  ConvGeometry g;
  PoolType type = PoolType::max;
  bool count_pad = true;  // the mean counts padding
  int p = 2;              // of the p-norm
  bool channels_last = false;
  const T* x = nullptr;
  const T* y = nullptr;     // backward: the output
  const T* head = nullptr;  // backward; along: the change of the data
  T* out = nullptr;
};

template <class T>
void pool_forward(RunContext& run, const PoolJob<T>& job);
template <class T>
void pool_backward(RunContext& run, const PoolJob<T>& job);
template <>
void pool_forward(RunContext&, const PoolJob<float>&);
template <>
void pool_forward(RunContext&, const PoolJob<double>&);
template <>
void pool_backward(RunContext&, const PoolJob<float>&);
template <>
void pool_backward(RunContext&, const PoolJob<double>&);

// out: the directional derivative along `head`. Max, mean and sum.
template <class T>
void pool_along(RunContext& run, const PoolJob<T>& job);

// 2 x 2 windows that tile the image, the common case, in one pass: maxima, forward also means of row-major images.
// False: the job is another one.
bool pool_pairs_forward(RunContext& run, const PoolJob<float>& job);
bool pool_pairs_backward(RunContext& run, const PoolJob<float>& job);

}  // namespace kaon::ops

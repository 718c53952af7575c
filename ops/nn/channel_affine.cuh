// What BatchNorm and the operators that plans make of it share on CUDA.
#pragma once

#include "kaon/ops/cuda/rows.cuh"
#include "kaon/ops/nn/norm_kernels.h"

namespace kaon::cuda {

// One number per channel, in workspace.
template <class A>
A* per_channel(KernelContext& c, const ChannelSizes& s) {
  return static_cast<A*>(c.run.workspace(size_t(std::max<int64_t>(1, s.channels)) * sizeof(A)));
}

struct AffineOf {
  template <class A>
  __device__ A operator()(A x, A mean, A b, A shift) const { return b * (x - mean) + shift; }
  template <class A>
  __device__ A operator()(A x, A mean, A b, A shift, A head, A a) const { return a * head + (b * (x - mean) + shift); }
};

// out = b[channel] (x - mean[channel]) + shift[channel], and + a[channel] head where head is not null.
template <class T>
void channel_affine(KernelContext& c, const ChannelSizes& s, const T* head, const T* x, const accumulate_t<T>* mean,
                    const accumulate_t<T>* a, const accumulate_t<T>* b, const accumulate_t<T>* shift, T* out) {
  const Shape full(s.outer, s.channels, s.inner), channels(1, s.channels, 1);
  if (head) {
    broadcast(c, AffineOf(), full, out, {&full, &channels, &channels, &channels, &full, &channels}, x, mean, b, shift,
              head, a);
  } else {
    broadcast(c, AffineOf(), full, out, {&full, &channels, &channels, &channels}, x, mean, b, shift);
  }
}

// scale[i] = gamma[i] |inverse[i]|, shift[i] = beta[i]; gamma without data: 1.
template <class A>
struct ScaleChannels {
  NumberArray gamma, beta;
  A *scale, *shift;
  __device__ void set(int64_t i, A inverse) const {
    scale[i] = channel_scale(gamma.data ? A(gamma.real(i)) : A(1), inverse);
    shift[i] = A(beta.real(i));
  }
};

}  // namespace kaon::cuda

// Kernels that BatchNorm and the operators that plans replace it by share on CUDA.
#pragma once

#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/reduce/kernels/rows.cuh"

namespace kaon::cuda {

// One number per channel, in workspace.
template <class A>
A* per_channel(KernelContext& c, const ChannelSizes& s) {
  return static_cast<A*>(c.run.workspace(size_t(std::max<int64_t>(1, s.channels)) * sizeof(A)));
}

struct AffineOf {
  template <class A>
  __device__ A operator()(A x, A mean, A b, A shift) const {
    return b * (x - mean) + shift;
  }
  template <class A>
  __device__ A operator()(A x, A mean, A b, A shift, A head, A a) const {
    return a * head + (b * (x - mean) + shift);
  }
};

// The numbers of the channels that a pack's elements are of: one for all, or one each.
template <int N, bool last, class A>
__device__ Pack<A, last ? N : 1> of_channels(const A* from, uint32_t channel) {
  return *reinterpret_cast<const Pack<A, last ? N : 1>*>(from + channel);
}

// channel_affine where packs of N do not cross channels: `last` says that these alternate, else each has `run` packs on
// end. Fewer than 2^31 packs.
template <int N, bool last, bool has_head, class T>
__global__ void __launch_bounds__(block)
    channel_affine_kernel(uint32_t packs, Divider run, Divider channels, const T* head, const T* x,
                          const accumulate_t<T>* mean, const accumulate_t<T>* a, const accumulate_t<T>* b,
                          const accumulate_t<T>* shift, T* out) {
  using A = accumulate_t<T>;
  for (int64_t i = first_item(); i < packs; i += item_step()) {
    const auto at = [&](const T* from) { return reinterpret_cast<const Pack<T, N>*>(from)[i]; };
    const Pack<T, N> values = at(x);
    Pack<T, N> heads;
    if constexpr (has_head) heads = at(head);
    const uint32_t k = last ? uint32_t(i) : run(uint32_t(i));  // of the channel, among all batches
    const uint32_t channel = (k - channels(k) * channels.divisor) * (last ? N : 1);
    const auto m = of_channels<N, last>(mean, channel), factor = of_channels<N, last>(b, channel);
    const auto more = of_channels<N, last>(shift, channel);
    const auto of_head = of_channels<N, last>(has_head ? a : b, channel);
    Pack<T, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int c = last ? j : 0;
      if constexpr (has_head) {
        y.v[j] = T(AffineOf()(A(values.v[j]), m.v[c], factor.v[c], more.v[c], A(heads.v[j]), of_head.v[c]));
      } else {
        y.v[j] = T(AffineOf()(A(values.v[j]), m.v[c], factor.v[c], more.v[c]));
      }
    }
    reinterpret_cast<Pack<T, N>*>(out)[i] = y;
  }
}

// out = b[channel] (x - mean[channel]) + shift[channel], and + a[channel] head where head is not null.
template <class T>
void channel_affine(KernelContext& c, const ChannelSizes& s, const T* head, const T* x, const accumulate_t<T>* mean,
                    const accumulate_t<T>* a, const accumulate_t<T>* b, const accumulate_t<T>* shift, T* out) {
  constexpr int N = 16 / sizeof(T);
  const int64_t n = s.outer * s.channels * s.inner, packs = n / N;
  const bool last = s.inner == 1;
  bool aligned = is_aligned<N>(x) && is_aligned<N>(out) && is_aligned<N>(head);
  for (const auto* numbers : {mean, a, b, shift}) aligned = aligned && (!last || is_aligned<N>(numbers));
  if (n > 0 && aligned && (last ? s.channels : s.inner) % N == 0 && packs < int64_t(1) << 31) {
    const auto start = [&]<bool is_last, bool has_head>() {
      launch(c, channel_affine_kernel<N, is_last, has_head, T>, blocks_for(packs), unsigned(block), uint32_t(packs),
             Divider(is_last ? 1 : s.inner / N), Divider(is_last ? s.channels / N : s.channels), head, x, mean, a, b,
             shift, out);
    };
    if (last) return head ? start.template operator()<true, true>() : start.template operator()<true, false>();
    return head ? start.template operator()<false, true>() : start.template operator()<false, false>();
  }
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

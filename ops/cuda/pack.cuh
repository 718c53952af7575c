// Several elements that are loaded and stored together. A light header: kernels compiled at run time read it.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::cuda {

// N elements that are loaded and stored together.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

// Elements `at` ... of an array of n. `whole`: it is aligned and does not end before at + N.
template <int N, class T>
__device__ Pack<T, N> load_pack(const T* from, int64_t at, int64_t n, bool whole) {
  if (whole) return *reinterpret_cast<const Pack<T, N>*>(from + at);
  Pack<T, N> x{};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (at + j < n) x.v[j] = from[at + j];
  }
  return x;
}

template <int N, class T>
__device__ void store_pack(T* to, int64_t at, int64_t n, bool whole, const Pack<T, N>& y) {
  if (whole) {
    *reinterpret_cast<Pack<T, N>*>(to + at) = y;
    return;
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (at + j < n) to[at + j] = y.v[j];
  }
}

}  // namespace kaon::cuda

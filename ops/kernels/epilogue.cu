#include "kaon/ops/kernels/epilogue.cuh"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/kernels/finish.h"

namespace kaon::cuda {
namespace {

// C: of the numbers per channel.
template <class T, class C>
struct Arguments {
  const T* x;
  T* y;
  const C *scale, *shift;
  const T* addend;
  FusedActivation activation;
  int64_t n, inner, channels;
};

// The place of an element in the planes of `inner` elements that are one channel each.
struct Place {
  int64_t channel, position;

  template <class A>
  __device__ Place(int64_t i, const A& a) {
    // 64-bit divisions would take longer than the memory does
    const int64_t plane = a.n <= UINT32_MAX ? uint32_t(i) / uint32_t(a.inner) : i / a.inner;
    channel = a.n <= UINT32_MAX ? uint32_t(plane) % uint32_t(a.channels) : plane % a.channels;
    position = i - plane * a.inner;
  }
  template <class A>
  __device__ void advance(const A& a) {
    if (++position < a.inner) return;
    position = 0;
    if (++channel == a.channels) channel = 0;
  }
};

// 16 bytes at a time.
template <class T, class C>
__global__ void finish_kernel(Arguments<T, C> a, bool aligned) {
  using A = accumulate_t<T>;
  constexpr int N = 16 / sizeof(T);
  for (int64_t i = first_item() * N; i < a.n; i += item_step() * N) {
    const bool whole = aligned && i + N <= a.n;
    const Pack<T, N> x = load_pack<N>(a.x, i, a.n, whole);
    Pack<T, N> addend{}, y;
    if (a.addend) addend = load_pack<N>(a.addend, i, a.n, whole);
    Place place(i, a);
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
      A v = A(x.v[lane]);
      if (a.scale) v *= A(a.scale[place.channel]);
      if (a.shift) v += A(a.shift[place.channel]);
      if (a.addend) v += A(addend.v[lane]);
      y.v[lane] = T(activate(v, a.activation));
      place.advance(a);
    }
    store_pack(a.y, i, a.n, whole, y);
  }
}

template <class T, class C>
void launch_finish(KernelContext& c, const Finish& f, const Epilogue<void>& e) {
  const Arguments<T, C> a{static_cast<const T*>(f.x),
                          static_cast<T*>(f.y),
                          static_cast<const C*>(e.scale),
                          static_cast<const C*>(e.shift),
                          static_cast<const T*>(e.addend),
                          e.activation,
                          f.n,
                          f.inner,
                          f.channels};
  constexpr int N = 16 / sizeof(T);
  const bool aligned = is_aligned<N>(a.x) && is_aligned<N>(a.y) && is_aligned<N>(a.addend);
  launch(c, finish_kernel<T, C>, blocks_for(f.n, block, N), unsigned(block), a, aligned);
}

}  // namespace

void finish(KernelContext& c, const Finish& f, const Epilogue<void>& e) {
  if (f.n == 0 || (f.x == f.y && e.is_empty())) return;
  dispatch_float("epilogue", f.dtype, [&]<class T>() {
    if (e.scale) {
      launch_finish<T, accumulate_t<T>>(c, f, e);
    } else {
      launch_finish<T, T>(c, f, e);
    }
  });
}

}  // namespace kaon::cuda

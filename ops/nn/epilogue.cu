#include "kaon/ops/nn/epilogue.h"

#include "kaon/ops/cuda/finish.h"
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/dispatch.h"
#include "kaon/ops/elementwise/scalar_math.h"

namespace kaon::cuda {
namespace {

template <class T>
struct Arguments {
  const T* x;
  T* y;
  const T *scale, *shift, *addend;
  FusedActivation activation;
  int64_t n, inner, channels;
};

template <class A>
__device__ A activate(A v, FusedActivation f) {
  switch (f) {
    case FusedActivation::relu: return unary_value<UnaryKind::relu>(v);
    case FusedActivation::sigmoid: return unary_value<UnaryKind::sigmoid>(v);
    case FusedActivation::tanh: return unary_value<UnaryKind::tanh>(v);
    default: return v;
  }
}

template <class T>
__device__ int64_t channel_of(int64_t i, const Arguments<T>& a) {
  // 64-bit divisions would take longer than the memory does
  if (a.n <= UINT32_MAX) return uint32_t(i) / uint32_t(a.inner) % uint32_t(a.channels);
  return i / a.inner % a.channels;
}

template <class T, int V>
struct alignas(sizeof(T) * V) Elements {
  T at[V];
};

// V elements at once are all of one channel, or of V consecutive ones when inner is 1.
template <class T, int V>
__global__ void finish_kernel(Arguments<T> a) {
  using A = accumulate_t<T>;
  using Vector = Elements<T, V>;
  const int64_t step = a.inner == 1 ? 1 : 0;
  for (int64_t i = first_item() * V; i < a.n; i += item_step() * V) {
    const Vector x = *reinterpret_cast<const Vector*>(a.x + i);
    Vector addend{}, y;
    if (a.addend) addend = *reinterpret_cast<const Vector*>(a.addend + i);
    const int64_t channel = a.shift ? channel_of(i, a) : 0;
    for (int lane = 0; lane < V; ++lane) {
      A v = A(x.at[lane]);
      if (a.scale) v *= A(a.scale[channel + lane * step]);
      if (a.shift) v += A(a.shift[channel + lane * step]);
      if (a.addend) v += A(addend.at[lane]);
      y.at[lane] = T(activate(v, a.activation));
    }
    *reinterpret_cast<Vector*>(a.y + i) = y;
  }
}

template <class T>
bool is_aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

}  // namespace

void finish(KernelContext& c, const Finish& f, const Epilogue<void>& e) {
  if (f.n == 0 || (f.x == f.y && e.is_empty())) return;
  dispatch_float("epilogue", f.dtype, [&]<class T>() {
    const Arguments<T> a{static_cast<const T*>(f.x),
                         static_cast<T*>(f.y),
                         static_cast<const T*>(e.scale),
                         static_cast<const T*>(e.shift),
                         static_cast<const T*>(e.addend),
                         e.activation,
                         f.n,
                         f.inner,
                         f.channels};
    constexpr int lanes = 16 / sizeof(T);
    const bool wide = is_aligned(a.x) && is_aligned(a.y) && is_aligned(a.addend) &&
                      (f.inner == 1 ? f.channels : f.inner) % lanes == 0;
    if (wide) {
      launch(c, finish_kernel<T, lanes>, blocks_for(f.n, block, lanes), unsigned(block), a);
    } else {
      launch(c, finish_kernel<T, 1>, blocks_for(f.n), unsigned(block), a);
    }
  });
}

}  // namespace kaon::cuda

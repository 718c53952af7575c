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

template <class T, int V>
struct alignas(sizeof(T) * V) Elements {
  T at[V];
};

// The place of an element in the planes of `inner` elements that are one channel each.
struct Place {
  int64_t channel, position;

  template <class T>
  __device__ Place(int64_t i, const Arguments<T>& a) {
    // 64-bit divisions would take longer than the memory does
    const int64_t plane = a.n <= UINT32_MAX ? uint32_t(i) / uint32_t(a.inner) : i / a.inner;
    channel = a.n <= UINT32_MAX ? uint32_t(plane) % uint32_t(a.channels) : plane % a.channels;
    position = i - plane * a.inner;
  }
  template <class T>
  __device__ void advance(const Arguments<T>& a) {
    if (++position < a.inner) return;
    position = 0;
    if (++channel == a.channels) channel = 0;
  }
};

// V elements at once.
template <class T, int V>
__global__ void finish_kernel(Arguments<T> a) {
  using A = accumulate_t<T>;
  using Vector = Elements<T, V>;
  for (int64_t i = first_item() * V; i < a.n; i += item_step() * V) {
    const Vector x = *reinterpret_cast<const Vector*>(a.x + i);
    Vector addend{}, y;
    if (a.addend) addend = *reinterpret_cast<const Vector*>(a.addend + i);
    Place place(i, a);
    for (int lane = 0; lane < V; ++lane, place.advance(a)) {
      A v = A(x.at[lane]);
      if (a.scale) v *= A(a.scale[place.channel]);
      if (a.shift) v += A(a.shift[place.channel]);
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
    if (f.n % lanes == 0 && is_aligned(a.x) && is_aligned(a.y) && is_aligned(a.addend)) {
      launch(c, finish_kernel<T, lanes>, blocks_for(f.n, block, lanes), unsigned(block), a);
    } else {
      launch(c, finish_kernel<T, 1>, blocks_for(f.n), unsigned(block), a);
    }
  });
}

}  // namespace kaon::cuda

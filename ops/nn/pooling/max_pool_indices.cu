// Maxima with their places on CUDA, and images filled by places, a thread for each image.
#include <limits>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/pooling/kernels/plane_indices.h"

namespace kaon {

using namespace ops;
namespace {

// A kernel cannot throw.
struct StopOutside {
  __device__ void operator()(int64_t, int64_t) const { __trap(); }
};

template <class T>
struct PoolWithPlace {
  using A = accumulate_t<T>;
  PoolSizes s;
  const T* images;
  T* out;
  int64_t* places;
  __device__ void operator()(int64_t e) const {
    const int64_t x = e % s.out[2], y = e / s.out[2] % s.out[1], z = e / s.out[2] / s.out[1];
    const int64_t plane = z / s.out[0];
    const PoolWindow w = s.window(z % s.out[0], y, x);
    const T* const image = images + plane * s.in[0] * s.in[1] * s.in[2];
    A best = -std::numeric_limits<A>::infinity();
    int64_t place = -1;
    for (int64_t h = w.begin[0]; h < w.end[0]; h += s.dilation[0]) {
      for (int64_t i = w.begin[1]; i < w.end[1]; i += s.dilation[1]) {
        for (int64_t j = w.begin[2]; j < w.end[2]; j += s.dilation[2]) {
          const int64_t at = (h * s.in[1] + i) * s.in[2] + j;
          const A v = A(image[at]);
          if (v > best || (v != v && best == best) || place < 0) best = v, place = at;
        }
      }
    }
    if (out) out[e] = T(best);
    if (places) places[e] = place;
  }
};

template <class T, class A, bool add>
void fill_planes(KernelContext& c) {
  const Shape &from = c.in(0).shape, &to = c.out().shape;
  if (c.out().size() == 0) return;
  void* const sums = sizeof(T) == sizeof(A) ? c.out().data : c.run.workspace(size_t(c.out().size()) * sizeof(A));
  cuda::for_each(c, to[0] * to[1],
                 FillPlane<T, A, add, StopOutside>{to.product(2, to.ndim()),
                                                   from.product(2, from.ndim()),
                                                   c.in(0).as<const T>(),
                                                   c.in(1).as<const int64_t>(),
                                                   static_cast<A*>(sums),
                                                   c.out().as<T>(),
                                                   {}});
}

}  // namespace

void run_cuda(const op::MaxPoolIndices& op, KernelContext& c) {
  const PoolWindows w = pool_windows(op, c.in(0).shape);
  const PoolSizes s(make_geometry(c.in(0).shape, w.out, w.kernel, w.stride, w.dilation, w.pad, 1));
  dispatch_float("max_pool_indices", c.in(0).dtype, [&]<class T>() {
    cuda::for_each(c, w.out.size(),
                   PoolWithPlace<T>{s, c.in(0).as<const T>(), c.out(0).as<T>(), c.out(1).as<int64_t>()});
  });
}

void run_cuda(const op::MaxUnpool&, KernelContext& c) {
  dispatch_width(c.out().dtype, [&]<class T>() { fill_planes<T, T, false>(c); });
}

void run_cuda(const op::BackwardMaxPoolIndices&, KernelContext& c) {
  dispatch_float("_backward_max_pool_indices", c.out().dtype,
                 [&]<class T>() { fill_planes<T, accumulate_t<T>, true>(c); });
}

void run_cuda(const op::PlaneTake&, KernelContext& c) {
  const Shape &images = c.in(0).shape, &places = c.out().shape;
  dispatch_width(c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(),
                   TakePlace<T, StopOutside>{images.product(2, images.ndim()),
                                             places.product(2, places.ndim()),
                                             c.in(0).as<const T>(),
                                             c.in(1).as<const int64_t>(),
                                             c.out().as<T>(),
                                             {}});
  });
}

}  // namespace kaon

// Triangles of matrices on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/packed_triangle.h"
#include "kaon/ops/math/dispatch.h"

namespace kaon {

using namespace ops;
namespace {

// Element k of the square matrices: whether the triangle has it, and where it is packed.
struct PackedPlace {
  PackedTriangle t;
  __device__ bool find(int64_t k, int64_t& packed) const {
    const int64_t row = k / t.n, j = k % t.n, i = row % t.n;
    packed = row / t.n * t.size() + t.place(i, j);
    return j >= t.first(i) && j < t.last(i);
  }
};

template <class T>
struct Pack {
  PackedPlace place;
  const T* square;
  T* packed;
  __device__ void operator()(int64_t k) const {
    int64_t at = 0;
    if (place.find(k, at)) packed[at] = square[k];
  }
};

template <class T>
struct Unpack {
  PackedPlace place;
  const T* packed;
  T* square;
  __device__ void operator()(int64_t k) const {
    int64_t at = 0;
    square[k] = place.find(k, at) ? packed[at] : T(0);
  }
};

template <class T>
struct KeepTriangle {
  int64_t rows, columns;
  bool lower;
  const T* in;
  T* out;
  __device__ void operator()(int64_t k) const {
    const int64_t i = k / columns % rows, j = k % columns;
    out[k] = (lower ? j <= i : j >= i) ? in[k] : T(0);
  }
};

}  // namespace

void run_cuda(const op::LinalgExtractTrian& op, KernelContext& c) {
  const PackedPlace place{PackedTriangle(c.in(0).shape.back(), op.offset, op.lower)};
  dispatch_width(c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.in(0).size(), Pack<T>{place, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::LinalgMakeTrian& op, KernelContext& c) {
  const PackedPlace place{PackedTriangle(c.out().shape.back(), op.offset, op.lower)};
  dispatch_width(c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(), Unpack<T>{place, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::Triangle& op, KernelContext& c) {
  const Shape& s = c.out().shape;
  dispatch_width(c.out().dtype, [&]<class T>() {
    cuda::for_each(c, s.size(),
                   KeepTriangle<T>{s[s.ndim() - 2], s.back(), op.lower, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

}  // namespace kaon

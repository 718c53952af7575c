// Running products and extrema on CUDA.
#include "kaon/ops/reduce/kernels/scan.cuh"
#include "kaon/ops/statistics/kernels/running.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;
namespace {

ScanPieces pieces_of(const Shape& shape, int axis) {
  return ScanPieces(shape, normalize_axis(axis, shape.ndim(), "scan"), false);
}

template <class T>
struct ProductGradLine {
  ScanPieces s;
  const T *head, *x;
  T* y;
  __device__ void operator()(int64_t line) const {
    const int64_t first = cuda::first_of(s, line);
    T product = T(1), sum = T(0);
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t at = first + k * s.inner;
      y[at] = product;
      product *= x[at];
    }
    for (int64_t k = s.n; k-- > 0;) {
      const int64_t at = first + k * s.inner;
      sum += head[at];
      y[at] *= sum;
      sum *= x[at];
    }
  }
};

template <class T>
struct ExtremeLine {
  ScanPieces s;
  bool largest;
  const T* x;
  int64_t* index;
  __device__ void operator()(int64_t line) const {
    const int64_t first = cuda::first_of(s, line);
    T best = x[first];
    int64_t at = 0;
    for (int64_t k = 0; k < s.n; ++k) {
      const T here = x[first + k * s.inner];
      if (replaces(here, best, largest)) best = here, at = k;
      index[first + k * s.inner] = at;
    }
  }
};

}  // namespace

void run_cuda(const op::ProductScan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  dispatch_running(c.out().dtype, [&]<class T>() { cuda::scan_lines<T>(c, pieces_of(shape, op.axis), T(1), Times()); });
}

void run_cuda(const op::ProductScanGrad& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const ScanPieces s = pieces_of(c.in(0).shape, op.axis);
  dispatch_running(c.out().dtype, [&]<class T>() {
    cuda::for_each(c, s.outer * s.inner,
                   ProductGradLine<T>{s, c.in(0).as<const T>(), c.in(1).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::ExtremeScan& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const ScanPieces s = pieces_of(c.in(0).shape, op.axis);
  dispatch_running(c.in(0).dtype, [&]<class T>() {
    cuda::for_each(c, s.outer * s.inner, ExtremeLine<T>{s, op.largest, c.in(0).as<const T>(), c.out().as<int64_t>()});
  });
}

}  // namespace kaon

// im2col and col2im on CUDA: a thread for each element of the result.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/kernels/window_columns.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct TakeColumns {
  WindowColumns all;
  const T* images;
  T* columns;
  __device__ void operator()(int64_t i) const {
    columns[i] = all.element(images, i / all.windows(), i % all.windows());
  }
};

template <class T>
struct SumColumns {
  WindowColumns all;
  const T* columns;
  T* images;
  __device__ void operator()(int64_t i) const {
    const int64_t line = i / all.x.size, slice = line / all.y.size;
    images[i] = all.sum(columns, slice / all.z.size, slice % all.z.size, line % all.y.size, i % all.x.size);
  }
};

}  // namespace

void run_cuda(const op::Im2col& op, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s);
  dispatch_float("im2col", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(), TakeColumns<T>{all, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::Col2im& op, KernelContext& c) {
  const Shape& s = c.out().shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s);
  dispatch_float("col2im", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(), SumColumns<T>{all, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

}  // namespace kaon

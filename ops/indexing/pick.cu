#include "kaon/ops/indexing/indexing.h"

#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/movement/kernels/copies.h"

namespace kaon {

using namespace ops;

namespace {

// The element of the data that index k picks.
struct Picked {
  cuda::FastDivide inner;
  cuda::Positions positions;
  __device__ int64_t operator()(int64_t k) const {
    const int64_t position = positions(k);
    const int64_t o = inner.split(k);
    return (o * positions.n + position) * inner.divisor() + k;
  }
};

// The index that picks element i of the data; -1: none.
struct PickedBy {
  cuda::FastDivide inner, n;
  cuda::Positions positions;
  __device__ int64_t operator()(int64_t i) const {
    int64_t at = inner.split(i);
    const int64_t k = n.split(at) * inner.divisor() + i;
    return positions(k) == at ? k : -1;
  }
};

// One element per run of `depth` is on: that of the run's index, if it is inside.
template <class T>
struct WriteHot {
  cuda::FastDivide depth;
  cuda::Numbers indices;
  T on, off;
  T* out;
  __device__ void operator()(int64_t i) const {
    int64_t at = i;
    const double index = indices(depth.split(at));
    out[i] = index > -1 && index < double(depth.divisor()) && int64_t(index) == at ? on : off;
  }
};

void pick(KernelContext& c, int at, IndexMode mode) {
  const Shape& data = c.in(0).shape;
  cuda::index_copy(
      c, size_of(c.out().dtype), c.in(1).size(), c.in(0).data, c.out().data,
      Picked{cuda::FastDivide(data.product(at + 1, data.ndim())), cuda::Positions(c.in(1), data[at], mode)});
}

}  // namespace

void run_cuda(const op::Pick& op, KernelContext& c) {
  pick(c, normalize_axis(op.axis, c.in(0).shape.ndim(), "pick"), op.mode);
}

void run_cuda(const op::PickGrad& op, KernelContext& c) {
  const int at = normalize_axis(op.axis, op.shape.ndim(), "_backward_pick");
  cuda::index_copy(c, size_of(c.out().dtype), c.out().size(), c.in(0).data, c.out().data,
                   PickedBy{cuda::FastDivide(op.shape.product(at + 1, op.shape.ndim())), cuda::FastDivide(op.shape[at]),
                            cuda::Positions(c.in(1), op.shape[at], op.mode)});
}

void run_cuda(const op::BatchTake&, KernelContext& c) { pick(c, 1, IndexMode::clip); }

void run_cuda(const op::OneHot& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const uint64_t on = element_bits(op.on_value, op.dtype), off = element_bits(op.off_value, op.dtype);
  dispatch_width(op.dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(),
                   WriteHot<T>{cuda::FastDivide(op.depth), cuda::Numbers(c.in(0)), T(on), T(off), c.out().as<T>()});
  });
}

}  // namespace kaon

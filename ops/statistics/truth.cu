// any and all on CUDA.
#include "kaon/ops/reduce/kernels/reduce.cuh"
#include "kaon/ops/statistics/kernels/chosen_axes.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct TruthElements {
  using Acc = uint32_t;
  using Fold = TruthElements;
  bool all;
  T truth;  // the bits of an element that make it true
  const T* data;
  bool* out;

  __device__ Acc identity() const { return all; }
  __device__ Acc merge(Acc a, Acc b) const { return all ? a & b : a | b; }
  __device__ Acc add(Acc acc, int64_t at, int64_t, int64_t) const { return merge(acc, (data[at] & truth) != 0); }
  __device__ void store(int64_t k, Acc acc) const { out[k] = acc != 0; }
};

}  // namespace

void ops::run_truth_cuda(bool all, const std::optional<Shape>& axis, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, chosen_axes(axis, in.shape.ndim(), "any"));
  dispatch_width(in.dtype, [&]<class T>() {
    const T truth = is_floating(in.dtype) ? T(T(~T(0)) >> 1) : T(~T(0));
    cuda::reduce(c, TruthElements<T>{all, truth, in.as<const T>(), c.out().as<bool>()}, dims.span());
  });
}

}  // namespace kaon

#include "kaon/ops/reduce/reduce.h"

#include <algorithm>

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon {

using namespace ops;
namespace {

// element(i) of bool as a number.
template <class T>
struct FromBool {
  const uint8_t* from;
  T* to;
  __device__ void operator()(int64_t i) const { to[i] = T(from[i]); }
};

template <class T>
TensorView numbers_of(KernelContext& c, const TensorView& x) {
  T* const to = static_cast<T*>(c.run.workspace(size_t(std::max<int64_t>(1, x.size())) * sizeof(T)));
  cuda::for_each(c, x.size(), FromBool<T>{x.as<const uint8_t>(), to});
  return {.data = to, .shape = x.shape, .dtype = dtype_of<T>};
}

}  // namespace

void ops::run_reduce_cuda(ReduceKind kind, const Shape& axis, bool exclude, KernelContext& c) {
  TensorView in = c.in(0);
  if (in.dtype == DType::boolean) {
    in = kind == ReduceKind::mean ? numbers_of<float>(c, in) : numbers_of<int64_t>(c, in);
  }
  const ReduceDims dims(in.shape, reduced_axes(axis, exclude, in.shape.ndim(), reduce_traits(kind).name.data()));
  cuda::Results results{.data = c.out().data, .dtype = c.out().dtype};
  if (kind == ReduceKind::mean) results.divisor = elements_per_result(dims.span());
  cuda::reduce_dims(c, combine_of(kind), in, dims.span(), false, results);
}

}  // namespace kaon

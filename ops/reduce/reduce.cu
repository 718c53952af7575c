#include "kaon/ops/reduce/reduce.h"

#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon {

using namespace ops;

void ops::run_reduce_cuda(ReduceKind kind, const Shape& axis, bool exclude, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(axis, exclude, in.shape.ndim(), reduce_traits(kind).name.data()));
  cuda::Results results{.data = c.out().data, .dtype = c.out().dtype};
  if (kind == ReduceKind::mean) results.divisor = elements_per_result(dims.span());
  cuda::reduce_dims(c, combine_of(kind), in, dims.span(), false, results);
}

}  // namespace kaon

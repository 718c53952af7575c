#include "kaon/ops/reduce/reduce.h"

#include "kaon/ops/reduce/reduce_driver.h"

namespace kaon {

template <ReduceKind K>
void run_cuda(const Reduce<K>& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(op.axis, op.exclude, in.shape.ndim(), op.traits.name.data()));
  cuda::Results results{.data = c.out().data, .dtype = c.out().dtype};
  if (K == ReduceKind::mean) results.divisor = elements_per_result(dims.span());
  cuda::reduce_dims(c, combine_of(K), in, dims.span(), false, results);
}

#define KAON_REDUCE(kind) template void run_cuda(const Reduce<ReduceKind::kind>&, KernelContext&);
KAON_REDUCE(sum)
KAON_REDUCE(mean)
KAON_REDUCE(prod)
KAON_REDUCE(max)
KAON_REDUCE(min)
KAON_REDUCE(nansum)
KAON_REDUCE(nanprod)
#undef KAON_REDUCE

}  // namespace kaon

#include "kaon/ops/reduce/reduce.h"

#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_grad.h"
#include "kaon/ops/reduce/reduce_grad.cuh"

namespace kaon {

using namespace ops;

void run_cuda(const op::Norm& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(op.axis, false, in.shape.ndim(), "norm"));
  const bool squares = op.ord == 2;
  cuda::reduce_dims(c, squares ? Combine::sum_squares : Combine::sum_abs, in, dims.span(), true,
                    {.data = c.out().data, .dtype = c.out().dtype, .root = squares});
}

void run_cuda(const op::NormGrad& op, KernelContext& c) { cuda::reduce_grad(op.axis, c, NormGradValue{op.ord}); }

}  // namespace kaon

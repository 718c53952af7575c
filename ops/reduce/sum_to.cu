#include "kaon/ops/reduce/reduce.h"

#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::SumTo&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  const int skipped = in.shape.ndim() - out.shape.ndim();
  uint32_t mask = 0;
  for (int i = 0; i < in.shape.ndim(); ++i) {
    if (i < skipped || out.shape[i - skipped] != in.shape[i]) mask |= bit(i);
  }
  const ReduceDims dims(in.shape, mask);
  cuda::reduce_dims(c, Combine::sum, in, dims.span(), true, {.data = out.data, .dtype = out.dtype});
}

}  // namespace kaon

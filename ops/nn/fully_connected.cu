#include "kaon/ops/cuda/blas.h"
#include "kaon/ops/nn/fully_connected.h"

namespace kaon {

void run_cuda(const FullyConnected& op, KernelContext& c) {
  const Shape& weight = c.in(1).shape;
  cuda::multiply(c, {.a = c.in(0).data,
                     .b = c.in(1).data,
                     .c = c.out().data,
                     .dtype = c.out().dtype,
                     .m = weight[0] ? c.out().size() / weight[0] : 0,
                     .n = weight[0],
                     .k = weight[1],
                     .transpose_b = true,
                     .epilogue = layer_epilogue<void>(c, op.no_bias, op.fused)});
}

}  // namespace kaon

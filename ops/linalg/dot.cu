#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/linalg/kernels/dot_sides.h"
#include "kaon/ops/linalg/linalg.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::Dot& op, KernelContext& c) {
  const DotSide a = lhs_side(c.in(0).shape, op.transpose_a), b = rhs_side(c.in(1).shape, op.transpose_b);
  cuda::multiply(c, {.a = c.in(0).data,
                     .b = c.in(1).data,
                     .c = c.out().data,
                     .dtype = c.out().dtype,
                     .m = a.rest,
                     .n = b.rest,
                     .k = a.contracted,
                     .transpose_a = op.transpose_a,
                     .transpose_b = op.transpose_b});
}

void run_cuda(const op::BatchDot& op, KernelContext& c) {
  const Shape& a = c.in(0).shape;
  const Shape& out = c.out().shape;
  cuda::multiply(c, {.a = c.in(0).data,
                     .b = c.in(1).data,
                     .c = c.out().data,
                     .dtype = c.out().dtype,
                     .m = out[1],
                     .n = out[2],
                     .k = op.transpose_a ? a[1] : a[2],
                     .transpose_a = op.transpose_a,
                     .transpose_b = op.transpose_b,
                     .batch = out[0]});
}

}  // namespace kaon

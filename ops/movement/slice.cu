#include "kaon/ops/movement/movement.h"

#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/kernels/strided_copy.cuh"
#include "kaon/ops/movement/kernels/copies.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::Slice& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::SliceAxis& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::SliceLike& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }

void run_cuda(const op::SliceGrad& op, KernelContext& c) {
  const TensorView& out = c.out();
  if (c.in(0).size() != out.size()) cuda::zero_bytes(c, out.data, out.bytes());
  cuda::strided_copy(c, copy_of(op, c));
}

void run_cuda(const op::SliceAssign& op, KernelContext& c) {
  const TensorView& out = c.out();
  cuda::copy_bytes(c, c.in(0).data, out.data, out.bytes());
  cuda::strided_copy(c, copy_of(op, c), c.in(1).data, out.data, size_of(out.dtype));
}

void run_cuda(const op::SliceAssignScalar& op, KernelContext& c) {
  const TensorView& out = c.out();
  cuda::copy_bytes(c, c.in(0).data, out.data, out.bytes());
  cuda::strided_fill(c, copy_of(op, c), element_bits(op.scalar, out.dtype), out.data, size_of(out.dtype));
}

}  // namespace kaon

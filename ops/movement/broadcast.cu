#include "kaon/ops/movement/movement.h"

#include "kaon/ops/kernels/strided_copy.cuh"
#include "kaon/ops/movement/kernels/copies.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::BroadcastTo& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::BroadcastAxis& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::BroadcastLike& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }

}  // namespace kaon

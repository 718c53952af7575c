#include "kaon/ops/movement/movement.h"

#include "kaon/ops/kernels/strided_copy.cuh"
#include "kaon/ops/movement/kernels/copies.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::Repeat& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::Tile& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const op::Reverse& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }

}  // namespace kaon

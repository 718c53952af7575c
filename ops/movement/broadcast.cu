#include "kaon/ops/movement/broadcast.h"

#include "kaon/ops/movement/copies.h"
#include "kaon/ops/movement/strided_copy.cuh"

namespace kaon {

void run_cuda(const BroadcastTo& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const BroadcastAxis& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const BroadcastLike& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }

}  // namespace kaon

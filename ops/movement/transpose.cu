#include "kaon/ops/movement/transpose.h"

#include "kaon/ops/movement/copies.h"
#include "kaon/ops/movement/strided_copy.cuh"

namespace kaon {

void run_cuda(const Transpose& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }
void run_cuda(const SwapAxis& op, KernelContext& c) { cuda::strided_copy(c, copy_of(op, c)); }

}  // namespace kaon

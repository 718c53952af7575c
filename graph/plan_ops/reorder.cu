#include "kaon/graph/plan_ops/reorder.h"

#include "kaon/ops/kernels/strided_copy.cuh"

namespace kaon {

using namespace graph;

void run_cuda(const op::Reorder&, KernelContext& c) { cuda::strided_copy(c, reorder_copy(c.in(0), c.out())); }

}  // namespace kaon

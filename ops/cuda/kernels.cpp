#include "kaon/ops/cuda/kernels.h"

#include "kaon/ops/all_ops.h"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

namespace kaon::cuda {

void for_each_op_kernel(AddKernel add, void* table) {
  for_each_op([&]<class Op>() {
    if constexpr (requires(const Op& op, KernelContext& c) { run_cuda(op, c); }) add_kernel<Op>(add, table);
  });
  add_kernel<op::MoveStatistics>(add, table);  // a gradient's, which nobody calls by name
}

}  // namespace kaon::cuda

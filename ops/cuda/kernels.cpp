#include "kaon/ops/cuda/kernels.h"

#include "kaon/ops/all_ops.h"

namespace kaon::cuda {

void for_each_op_kernel(AddKernel add, void* table) {
  for_each_op([&]<class Op>() {
    if constexpr (requires(const Op& op, KernelContext& c) { run_cuda(op, c); }) add_kernel<Op>(add, table);
  });
}

}  // namespace kaon::cuda

#include "kaon/ops/cuda/kernels.h"

#include "kaon/ops/all_ops.h"

namespace kaon::cuda {

void for_each_op_kernel(AddKernel add, void* table) {
  for_each_op([&]<class Op>() {
    if constexpr (requires(const Op& op, KernelContext& c) { run_cuda(op, c); }) add_kernel<Op>(add, table);
  });
}

}  // namespace kaon::cuda

// The second of libkaon_cuda.so's two seams.
extern "C" __attribute__((visibility("default"))) void kaon_cuda_kernels(kaon::cuda::AddKernel add, void* table) {
  kaon::cuda::for_each_op_kernel(add, table);
}

// The operators that have a CUDA kernel, with it.
#pragma once

#include "kaon/ops/operator/gpu_kernels.h"

namespace kaon::cuda {

// prepare_cuda(op, device), in the namespace of the operator's struct, is for those that have something to prepare.
template <class Op>
concept HasPreparation = requires(const Op& op) {
  prepare_cuda(op, 0);
};

// run_cuda(op, context) launches the kernel.
template <class Op>
void add_kernel(AddKernel add, void* table) {
  GpuKernel kernel{[](const void* attrs, KernelContext& c) { run_cuda(*static_cast<const Op*>(attrs), c); }};
  if constexpr (HasPreparation<Op>) {
    kernel.prepare = [](const void* attrs, int device) { prepare_cuda(*static_cast<const Op*>(attrs), device); };
  }
  add(table, Op::traits.name, kernel);
}

// Calls add(table, ...) for every operator of all_ops.h.
void for_each_op_kernel(AddKernel add, void* table);

}  // namespace kaon::cuda

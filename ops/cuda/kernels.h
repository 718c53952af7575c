// The operators that have a CUDA kernel, with it.
#pragma once

#include <string_view>

#include "kaon/ops/view.h"

namespace kaon::cuda {

using Kernel = void (*)(const void* attrs, KernelContext&);
using AddKernel = void (*)(void* table, std::string_view op, Kernel kernel);

template <class Op>
void add_kernel(AddKernel add, void* table) {
  add(table, Op::traits.name, [](const void* attrs, KernelContext& c) { run_cuda(*static_cast<const Op*>(attrs), c); });
}

// Calls add(table, ...) for every operator of all_ops.h.
void for_each_op_kernel(AddKernel add, void* table);

}  // namespace kaon::cuda

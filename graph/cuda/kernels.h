// The operators of the graph layer that have a CUDA kernel.
#pragma once

#include "kaon/ops/cuda/kernels.h"

namespace kaon::cuda {

// Calls add(table, ...) for each.
void for_each_graph_kernel(AddKernel add, void* table);

}  // namespace kaon::cuda

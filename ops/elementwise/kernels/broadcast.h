// Runs a kernel of two inputs whose shapes broadcast to the output's.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"

namespace kaon::ops {

// Inputs 0 and 1 against output 0 of the call; layouts may be mixed.
void run_broadcast(const PointwiseKernels& kernels, const void* attrs, KernelContext& c);

}  // namespace kaon::ops

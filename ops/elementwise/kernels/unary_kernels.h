// The kernels of the unary functions and of their backward operators.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise_kinds.h"

namespace kaon::ops {

// Thread safety: any thread.
const PointwiseKernels& unary_kernels(UnaryKind kind);
const PointwiseKernels& unary_backward_kernels(UnaryBackwardKind kind);

// alpha x + beta, between 0 and 1.
void hard_sigmoid(const float* x, float* y, size_t n, float alpha, float beta);

}  // namespace kaon::ops

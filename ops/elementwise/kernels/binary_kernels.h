// The kernels of the functions of two arrays, and of an array and a number.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise_kinds.h"

namespace kaon::ops {

// Thread safety: any thread.
const PointwiseKernels& binary_kernels(BinaryKind kind);  // inputs of one shape
const PointwiseKernels& scalar_kernels(ScalarKind kind);  // attrs: a Scalar<kind>

}  // namespace kaon::ops

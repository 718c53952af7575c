// The kernels of functions of two reals.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/numeric/numeric.h"

namespace kaon::ops {

const PointwiseKernels& real_kernels(RealKind kind);

}  // namespace kaon::ops

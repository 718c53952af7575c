// The kernels of functions of two reals.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/numeric/numeric.h"

namespace kaon::ops {

const PointwiseKernels& real_kernels(RealKind kind);

// What takes the places of NaN and the infinities.
template <class T>
struct NanReplacement;
void replace_nan(const NanReplacement<float>& replacement, const float* from, float* to, size_t n);

}  // namespace kaon::ops

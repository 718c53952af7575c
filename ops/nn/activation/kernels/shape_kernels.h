// The kernels of activations without an output layer's or a layer's part.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/nn/activation/activation.h"

namespace kaon::ops {

// Op: one of those in shape_value.h.
template <class Op>
const PointwiseKernels& shape_kernels();

// Two inputs: what is gated, and the gates.
const PointwiseKernels& glu_kernels();

}  // namespace kaon::ops

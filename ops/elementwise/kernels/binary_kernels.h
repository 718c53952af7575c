// The kernels of the functions of two arrays, and of an array and a number.
#pragma once

#include "kaon/ops/elementwise/kernels/broadcast.h"
#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise_kinds.h"

namespace kaon::ops {

// Thread safety: any thread.
const PointwiseKernels& binary_kernels(BinaryKind kind);  // inputs of one shape
const PointwiseKernels& scalar_kernels(ScalarKind kind);  // attrs: a Scalar<kind>
const NumberTiles& number_tiles(BinaryKind kind);         // the same of arrays, one of which is a number in a row

}  // namespace kaon::ops

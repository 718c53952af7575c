// The epilogue of a layer for one value, on a device.
#pragma once

#include <cuda_runtime.h>

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/math/scalar_math.h"

namespace kaon::cuda {

template <class A>
__device__ A activate(A v, FusedActivation f) {
  switch (f) {
    case FusedActivation::relu: return unary_value<UnaryKind::relu>(v);
    case FusedActivation::sigmoid: return unary_value<UnaryKind::sigmoid>(v);
    case FusedActivation::tanh: return unary_value<UnaryKind::tanh>(v);
    default: return v;
  }
}

}  // namespace kaon::cuda

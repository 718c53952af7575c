// Maxima of windows with their places, on the CPU, in float and in double.
#pragma once

#include "kaon/engine/run_context.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"

namespace kaon::ops {

// Of row-major planes of s.in each: maxima and places of s.out each.
template <class T>
void pool_with_places(RunContext& run, const PoolSizes& s, int64_t planes, const T* x, T* best, int64_t* places);

}  // namespace kaon::ops

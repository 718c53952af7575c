// Runs a kernel of two inputs whose shapes broadcast to the output's.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"

namespace kaon::ops {

// The float32 tiles of a function where one of its arguments is a number, which attrs points to (a float).
struct NumberTiles {
  TileFn first = nullptr, second = nullptr;  // by the number's place
};

// Inputs 0 and 1 against output 0 of the call; layouts may be mixed. `with_number` may be empty: then a number that
// repeats along a row becomes an array.
void run_broadcast(const PointwiseKernels& kernels, const void* attrs, KernelContext& c,
                   const NumberTiles& with_number = {});

}  // namespace kaon::ops

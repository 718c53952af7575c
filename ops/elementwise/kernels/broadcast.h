// Runs a kernel of two inputs whose shapes broadcast to the output's.
#pragma once

#include "kaon/ops/elementwise/kernels/pointwise.h"

namespace kaon::ops {

// Rows of float32 that have a number each: row r begins at row + r * row_step, its number is number[r * number_step].
// `out` is dense, and may be `row` where that is dense too.
struct NumberRows {
  const float* number;
  int64_t number_step;
  const float* row;
  int64_t row_step;
  int64_t rows, length;  // least_number_row elements or more
  float* out;
};
inline constexpr int64_t least_number_row = 16;
using NumberRowsFn = void (*)(const NumberRows& r);

// The float32 tiles of a function where one of its arguments is a number, which attrs points to (a float); and the same
// of many rows, nullptr where a call for each costs little beside its elements.
struct NumberTiles {
  TileFn first = nullptr, second = nullptr;  // by the number's place
  NumberRowsFn first_rows = nullptr, second_rows = nullptr;
};

// Inputs 0 and 1 against output 0 of the call; layouts may be mixed. `with_number` may be empty: then a number that
// repeats along a row becomes an array.
void run_broadcast(const PointwiseKernels& kernels, const void* attrs, KernelContext& c,
                   const NumberTiles& with_number = {});

}  // namespace kaon::ops

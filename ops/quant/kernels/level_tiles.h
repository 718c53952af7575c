// Loops over levels that stand for scale (q - zero), per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/view.h"

namespace kaon::ops {

// What levels of int8 or uint8 stand for.
struct LevelMeaning {
  DType dtype = DType::uint8;
  float scale = 1, zero = 0;
};

// The levels nearest to the numbers; NaN gives 0.
void numbers_to_levels(const float* from, const LevelMeaning& to, void* levels, size_t n);
void numbers_of_levels(const void* levels, const LevelMeaning& from, float* to, size_t n);
// The sums of the numbers of two arrays, with `relu` at least 0.
void sums_of_levels(const void* lhs, const LevelMeaning& left, const void* rhs, const LevelMeaning& right, bool relu,
                    const LevelMeaning& to, void* sums, size_t n);

// Windows of an image with channels last: `columns` of a row of the result begin at `first`, `step` apart.
struct LevelWindows {
  int64_t width, channels;       // of the image
  int64_t rows_begin, rows_end;  // under the windows
  int64_t columns, kernel, step, pad;
};
// to[x, c] = the largest level under window x of a row of the result.
void largest_levels(DType t, const void* image, const LevelWindows& w, void* to);

}  // namespace kaon::ops

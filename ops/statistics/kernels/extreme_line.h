// Where the largest or smallest element of a line is, up to each of its elements.
#pragma once

#include <cstdint>

namespace kaon::ops {

// index[i] = the place of the last largest of x[0], ..., x[i] (or smallest), where a NaN counts as beyond all numbers;
// n > 0. T: float, double, int64_t.
void extreme_line(const float* x, int64_t* index, int64_t n, bool largest);
void extreme_line(const double* x, int64_t* index, int64_t n, bool largest);
void extreme_line(const int64_t* x, int64_t* index, int64_t n, bool largest);

}  // namespace kaon::ops

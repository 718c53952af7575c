// Numbers given as attributes for arrays of a dtype.
#pragma once

#include "kaon/ops/op.h"

namespace kaon::ops {

// Throws ValueError "[op] what ..." for a number that, truncated, is no value of an integer dtype: NaN, infinities, 300
// and -1 for uint8. Bool takes every finite number, floating dtypes take all.
void expect_holds(const InferContext& c, const char* what, double value, DType dtype);

}  // namespace kaon::ops

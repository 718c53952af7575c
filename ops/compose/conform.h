// An array in the shape or the dtype that the next operator takes, for operators that are made of others.
#pragma once

#include "kaon/ops/ndarray.h"

namespace kaon::ops {

// x under another shape of as many elements; x itself where that is its shape. Unlike the operator, a view where
// nothing is recorded.
NDArray shaped(const NDArray& x, const Shape& shape);

// x cast to the dtype; x itself where it has it.
NDArray in_dtype(const NDArray& x, DType dtype);

}  // namespace kaon::ops

// What other operators ask of those that move elements.
#pragma once

#include "kaon/ops/ndarray.h"

namespace kaon::ops {

// The shape that MXNet's codes ask for: n > 0 a dimension, 0 copies one, -1 is inferred (at most once), -2 copies the
// rest, -3 multiplies two, -4 splits one into the next two entries (one of which may be -1). `reverse` matches from the
// right. Throws ShapeError naming `op` when the sizes differ or the codes do not fit.
Shape infer_reshape(const Shape& in, const Shape& codes, bool reverse, const char* op);

// The gradient of broadcasting `shape` to x's shape: x summed over the axes that were repeated.
NDArray sum_to_shape(const NDArray& x, const Shape& shape);

}  // namespace kaon::ops

#include "kaon/ops/compose/conform.h"

#include "kaon/ops/functions.h"

namespace kaon::ops {

NDArray shaped(const NDArray& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  // to reshape() a 0 is a code, and no dimensions are a missing attribute
  return shape.size() == 0 || shape.empty() ? nd._reshape_to(x, {.shape = shape}) : x.reshape(shape);
}

NDArray in_dtype(const NDArray& x, DType dtype) { return x.dtype() == dtype ? x : nd.cast(x, dtype); }

}  // namespace kaon::ops

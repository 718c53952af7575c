#include "kaon/ops/compose/conform.h"

#include "kaon/ops/functions.h"

namespace kaon::ops {

NDArray shaped(const NDArray& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return shape.size() == 0 ? nd._reshape_to(x, {.shape = shape}) : x.reshape(shape);  // to reshape(), a 0 is a code
}

NDArray in_dtype(const NDArray& x, DType dtype) { return x.dtype() == dtype ? x : nd.cast(x, dtype); }

}  // namespace kaon::ops

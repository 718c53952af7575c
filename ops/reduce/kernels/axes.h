// The axes that a reduction takes, and the shape of its result.
#pragma once

#include "kaon/ops/reduce/kernels/reduce_kernels.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon::ops {

// How the kernels combine elements for a kind of reduction.
constexpr Combine combine_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::prod: return Combine::prod;
    case ReduceKind::max: return Combine::max;
    case ReduceKind::min: return Combine::min;
    case ReduceKind::nansum: return Combine::nan_sum;
    case ReduceKind::nanprod: return Combine::nan_prod;
    default: return Combine::sum;
  }
}

// Bit i: axis i is reduced. Throws ShapeError for an axis that is out of range or named twice.
uint32_t reduced_axes(const Shape& axis, bool exclude, int ndim, const char* op);
// The shape of the result.
Shape reduced_shape(const Shape& in, uint32_t mask, bool keepdims);
// The axes in a mask as a list.
Shape axes_of(uint32_t mask);
// Throws ShapeError when a result that needs an element (max, argmax) would be taken over none.
void expect_elements(const InferContext& c, uint32_t mask);

}  // namespace kaon::ops

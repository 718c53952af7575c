// The axes of reductions as NumPy names them.
#pragma once

#include <optional>

#include "kaon/ops/reduce/kernels/axes.h"

namespace kaon::ops {

// Bit i: axis i is reduced. No list names all axes, an empty one none. Throws as reduced_axes does.
inline uint32_t chosen_axes(const std::optional<Shape>& axis, int ndim, const char* op) {
  if (!axis) return (1u << ndim) - 1;
  return axis->empty() ? 0 : reduced_axes(*axis, false, ndim, op);
}

// How many elements are reduced into each result.
inline int64_t reduced_size(const Shape& shape, uint32_t mask) {
  int64_t n = 1;
  for (int i = 0; i < shape.ndim(); ++i) n *= (mask >> i & 1) != 0 ? shape[i] : 1;
  return n;
}

}  // namespace kaon::ops

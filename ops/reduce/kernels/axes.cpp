// The axes of reductions.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon::ops {

uint32_t reduced_axes(const Shape& axis, bool exclude, int ndim, const char* op) {
  const uint32_t all = (1u << ndim) - 1;
  if (axis.empty()) return all;
  uint32_t mask = 0;
  for (int64_t a : axis) {
    const uint32_t one = bit(normalize_axis(a, ndim, op));
    if (mask & one) throw ShapeError(fmt::format("[{}] axis {} is named twice in {}", op, a, axis.str()));
    mask |= one;
  }
  return exclude ? all & ~mask : mask;
}

Shape reduced_shape(const Shape& in, uint32_t mask, bool keepdims) {
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    if (!((mask >> i) & 1)) {
      out.push_back(in[i]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  if (out.empty()) out.push_back(1);
  return out;
}

Shape axes_of(uint32_t mask) {
  Shape axes;
  for (int i = 0; i < Shape::max_ndim; ++i) {
    if ((mask >> i) & 1) axes.push_back(i);
  }
  return axes;
}

void expect_elements(const InferContext& c, uint32_t mask) {
  int64_t reduced = 1, kept = 1;
  for (int i = 0; i < c.shape(0).ndim(); ++i) ((mask >> i) & 1 ? reduced : kept) *= c.shape(0)[i];
  if (reduced == 0 && kept != 0) {
    c.fail(fmt::format("needs at least one element along the reduced axes, got shape {}", c.shape(0).str()));
  }
}

}  // namespace kaon::ops

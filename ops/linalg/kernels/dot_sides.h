// The operands of dot as matrices.
#pragma once

#include "kaon/ops/shape.h"

namespace kaon::ops {

// An operand as a matrix: its contracted axis, apart from the product of the others.
struct DotSide {
  int64_t contracted, rest;
};
inline DotSide lhs_side(const Shape& s, bool transpose) {
  return transpose ? DotSide{s[0], s.product(1, s.ndim())} : DotSide{s.back(), s.product(0, s.ndim() - 1)};
}
inline DotSide rhs_side(const Shape& s, bool transpose) { return lhs_side(s, !transpose); }

}  // namespace kaon::ops

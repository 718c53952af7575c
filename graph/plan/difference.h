// Comparison of two tensors: bit for bit, or within the rounding of faster kernels.
#pragma once

#include <optional>
#include <string>

#include "kaon/ops/view.h"

namespace kaon::graph {

// |got - expected| <= rtol |expected| + atol m, where m is 1 or the largest finite |expected| of the tensor if that is
// more: a small sum of large terms has their rounding. NaN equals NaN, an infinity itself. Integers and bool are always
// exact.
struct Bounds {
  bool exact = true;  // every bit, apart from those of a NaN
  double rtol = 0, atol = 0;
};

// For a plan that is not exact. float32: 1e-4 and 1e-5, gradients 1e-3 and 1e-4; float64 likewise in its own precision;
// 16-bit floats some units of their last place, which a fused chain rounds less often.
Bounds bounds_for(DType dtype, bool is_gradient);

// "at element 5 (0, 1, 1): expected 0.25, got 0.5 (...)" for the first element that differs. Both of one shape and
// dtype, in row-major order.
std::optional<std::string> find_difference(const TensorMeta& meta, const void* expected, const void* got,
                                           const Bounds& bounds);

}  // namespace kaon::graph

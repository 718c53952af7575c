#include "kaon/interchange/onnx/runtime/heads.h"

#include <fmt/format.h>

#include <numeric>

#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

Symbol step_numbers(int64_t n, const Shape& shape) {
  std::vector<double> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return constant(v, shape);
}

Symbol split_into_heads(const Call& c, const Symbol& x, int64_t heads) {
  const Shape& s = shape_of(x);
  if (s.ndim() != 3 || heads < 1 || s[2] % heads != 0) c.fail(fmt::format("{} heads for shape {}", heads, s.str()));
  return transposed(reshaped(x, Shape(s[0], s[1], heads, s[2] / heads)), {0, 2, 1, 3});
}

Symbol heads_joined(const Symbol& x) {
  const Shape& s = shape_of(x);
  return reshaped(transposed(x, {0, 2, 1, 3}), Shape(s[0], s[2], s[1] * s[3]));
}

void add_bias(Symbol& bias, const Symbol& more) { bias = bias.defined() ? sym.broadcast_add(bias, more) : more; }

Symbol rotated(const Call& c, const Symbol& x, const Symbol& cosines, const Symbol& sines, const Symbol& positions,
               bool interleaved) {
  const Shape s = shape_of(x), as = shape_of(cosines), ps = shape_of(positions);
  if (as.ndim() != 2 || as != shape_of(sines) || as[1] < 1 || 2 * as[1] > s[3]) {
    c.fail(fmt::format("cosines of shape {} and sines of shape {} for heads of {} numbers", as.str(),
                       shape_of(sines).str(), s[3]));
  }
  const int64_t half = as[1], dims = 2 * half;
  const auto angles = [&](const Symbol& table) {
    const Symbol rows = sym.take(table, cast(positions, DType::int64), {.axis = 0});
    return cast(reshaped(rows, Shape(ps[0], 1, ps[1], half)), DType::float32);
  };
  const Symbol cosine = angles(cosines), sine = angles(sines);
  const Symbol turned = cast(slice_along(x, 3, 0, dims), DType::float32);
  const Symbol a = interleaved ? slice_along(turned, 3, 0, dims, 2) : slice_along(turned, 3, 0, half);
  const Symbol b = interleaved ? slice_along(turned, 3, 1, dims, 2) : slice_along(turned, 3, half, dims);
  const Symbol re = sym.broadcast_mul(a, cosine) - sym.broadcast_mul(b, sine);
  const Symbol im = sym.broadcast_mul(a, sine) + sym.broadcast_mul(b, cosine);
  const Symbol y =
      cast(interleaved ? reshaped(sym.stack({.axis = 4}, re, im), shape_of(turned)) : concatenated({re, im}, 3),
           dtype_of(x));
  return dims < s[3] ? concatenated({y, slice_along(x, 3, dims, s[3])}, 3) : y;
}

}  // namespace kaon::onnx::convert

#include "kaon/interchange/onnx/operators/resize.h"

#include <algorithm>
#include <cmath>

namespace kaon::onnx::convert {

namespace {

// Keys's kernel (1981) with parameter a.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// x / scale. The scale of a file is the float32 that is nearest to the one that was meant: a quotient in float32 is the
// whole number where that one would give it (3 by 0.6), and nearest pixels need it.
double unscaled(const ResizeAxis& a, double x) {
  if (a.by_sizes) return x * double(a.in) / double(a.out);
  if (a.kind == ResizeKind::nearest) return double(float(x) / float(a.scale));
  return x / a.scale;
}

// Where pixel `o` of the result is among the pixels of the axis.
double position(const ResizeAxis& a, int64_t o) {
  const double x = double(o), in = double(a.in), width = a.scale * in;
  // by the number of pixels, as PyTorch and ONNX Runtime do, also where the scale would give a part of one more
  if (a.coordinates == "align_corners") return a.out == 1 ? 0 : x * (in - 1) / double(a.out - 1);
  if (a.coordinates == "asymmetric") return unscaled(a, x);
  if (a.coordinates == "tf_crop_and_resize") {
    const double begin = a.roi_begin * (in - 1), length = (a.roi_end - a.roi_begin) * (in - 1);
    return a.out == 1 ? begin + length / 2 : begin + x * length / (double(a.out) - 1);
  }
  if (a.coordinates == "pytorch_half_pixel") return a.out == 1 ? 0 : unscaled(a, x + 0.5) - 0.5;
  if (a.coordinates == "half_pixel_symmetric") {
    const double adjustment = double(a.out) / width;
    return in / 2 * (1 - adjustment) + unscaled(a, x + 0.5) - 0.5;
  }
  return unscaled(a, x + 0.5) - 0.5;  // half_pixel
}

}  // namespace

ResizeWeights resize_weights(const ResizeAxis& a) {
  ResizeWeights r;
  for (int64_t o = 0; o < a.out; ++o) {
    const double x = position(a, o);
    r.is_outside.push_back(a.coordinates == "tf_crop_and_resize" && (x < 0 || x > double(a.in) - 1));
    // the pixel at or left of x; of a whole number the one before it, with ratio 1
    const double below = std::ceil(x) - 1;
    const double ratio = x - below;
    int64_t first = int64_t(below);
    std::vector<double> w;
    if (a.kind == ResizeKind::nearest) {
      bool right = ratio == 1;
      if (!right) {
        right = a.nearest == "ceil" || (a.nearest == "round_prefer_floor" && ratio > 0.5) ||
                (a.nearest == "round_prefer_ceil" && ratio >= 0.5);
      }
      if (right) ++first;
      w = {1};
    } else {
      const double shrink = a.antialias ? std::min(a.scale, 1.0) : 1.0;
      const double reach = a.kind == ResizeKind::linear ? 1 : 2;
      const int64_t begin = int64_t(std::floor(-reach / shrink)) + 1, end = 2 - begin;
      first += begin;
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) {
        const double at = (double(i) - ratio) * shrink;
        double value = a.kind == ResizeKind::linear ? std::max(0.0, 1 - std::abs(at)) : cubic(at, a.cubic_a);
        const int64_t pixel = int64_t(below) + i;
        if (a.exclude_outside && (pixel < 0 || pixel >= a.in)) value = 0;
        w.push_back(value);
        sum += value;
      }
      if ((a.antialias || a.exclude_outside) && sum != 0) {
        for (double& v : w) v /= sum;
      }
    }
    r.first.push_back(first);
    r.weights.push_back(std::move(w));
  }
  return r;
}

}  // namespace kaon::onnx::convert

// How the pixels of a resized axis are made of its pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaon::onnx::convert {

enum class ResizeKind : uint8_t { nearest, linear, cubic };

// One axis: `in` pixels to `out`, by `scale`, which need not be out / in. by_sizes: it is out / in exactly.
struct ResizeAxis {
  ResizeKind kind = ResizeKind::nearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool antialias = false, exclude_outside = false;
  int64_t in = 1, out = 1;
  double scale = 1;
  bool by_sizes = false;
  double roi_begin = 0, roi_end = 1;  // for tf_crop_and_resize
};

// Result o is the sum of weights[o][i] times pixel first[o] + i, where positions outside are the nearest pixel;
// is_outside: it is the extrapolation value instead.
struct ResizeWeights {
  std::vector<int64_t> first;
  std::vector<std::vector<double>> weights;
  std::vector<bool> is_outside;
};

ResizeWeights resize_weights(const ResizeAxis& axis);

}  // namespace kaon::onnx::convert

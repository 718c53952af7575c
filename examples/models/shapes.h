// Images of rectangles, discs and triangles: what the examples of detection and segmentation learn from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace shapes {

constexpr int side = 64, most = 3, kinds = 3;

struct Drawn {
  std::vector<float> image;   // (3, side, side), from 0 to 1
  std::vector<float> boxes;   // (most, 5): kind and corners in parts of the image, -1 where there is none
  std::vector<float> pixels;  // (side, side): 0 for the background, else 1 + the kind that is seen there
};

// Noise, and one to three shapes on it, each of a colour of its own; later ones hide earlier ones.
inline Drawn draw(int64_t seed) {
  std::mt19937 random{uint32_t(seed)};
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  Drawn drawn{std::vector<float>(3 * side * side), std::vector<float>(most * 5, -1), std::vector<float>(side * side)};
  for (float& v : drawn.image) v = between(0, 0.3f);
  const int count = 1 + int(random() % most);
  for (int s = 0; s < count; ++s) {
    const int kind = int(random() % kinds);
    const float size = between(0.25f, 0.5f), x = between(0, 1 - size), y = between(0, 1 - size);
    const float colour[] = {between(0.5f, 1), between(0.5f, 1), between(0.5f, 1)};
    for (int i = 0; i < side * side; ++i) {
      const float u = (float(i % side) / side - x) / size,
                  v = (float(i / side) / side - y) / size;  // in the shape's box
      if (u < 0 || u > 1 || v < 0 || v > 1) continue;
      const bool is_disc = (u - 0.5f) * (u - 0.5f) + (v - 0.5f) * (v - 0.5f) < 0.25f;
      const bool is_triangle = std::abs(u - 0.5f) < v / 2;
      if ((kind == 1 && !is_disc) || (kind == 2 && !is_triangle)) continue;
      for (int c = 0; c < 3; ++c) drawn.image[size_t(c * side * side + i)] = colour[c];
      drawn.pixels[size_t(i)] = float(kind + 1);
    }
    const float box[] = {float(kind), x, y, x + size, y + size};
    std::copy_n(box, 5, &drawn.boxes[size_t(s) * 5]);
  }
  return drawn;
}

}  // namespace shapes

// Inputs of rows of object detection.
#pragma once

#include <random>
#include <vector>

#include "kaon/ops/nn/detection/detection.h"

namespace kaon::test {

using Numbers = std::vector<double>;

// Multiples of 1/64 in [0, 1), which every floating dtype holds.
inline Numbers fractions(int64_t n, uint32_t seed) {
  std::mt19937 bits(seed);
  Numbers out(static_cast<size_t>(n));
  for (double& v : out) v = double(bits() % 64) / 64;
  return out;
}

// n boxes in the unit square.
inline Numbers boxes(int64_t n, uint32_t seed, BoxFormat format = BoxFormat::corner) {
  Numbers out = fractions(4 * n, seed);
  for (size_t i = 0; i < out.size(); i += 4) {
    double* const b = &out[i];
    b[0] /= 2, b[1] /= 2;
    for (int axis : {0, 1}) b[axis + 2] = b[axis + 2] / 2 + 5.0 / 64 + (format == BoxFormat::corner ? b[axis] : 0);
  }
  return out;
}

}  // namespace kaon::test

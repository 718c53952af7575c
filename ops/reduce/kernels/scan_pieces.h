// How sums up to each element are cut into pieces, for both devices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

// An array (outer, n, inner), scanned along its middle: outer x inner lines of n elements. Where there are few lines,
// each is cut into pieces, whose sums are added first.
struct ScanPieces {
  int64_t outer = 1, n = 1, inner = 1;
  int64_t length = 1, pieces = 1;  // of a line
  bool reverse = false;

  ScanPieces(const Shape& shape, int axis, bool reverse)
      : outer(shape.product(0, axis)), n(shape[axis]), inner(shape.product(axis + 1, shape.ndim())), reverse(reverse) {
    constexpr int64_t few = 256, least = 1024;
    length = outer * inner >= few ? std::max<int64_t>(n, 1) : least;
    pieces = (n + length - 1) / length;
  }
  KAON_HOST_DEVICE int64_t begin(int64_t piece) const { return piece * length; }
  KAON_HOST_DEVICE int64_t end(int64_t piece) const { return piece == pieces - 1 ? n : (piece + 1) * length; }
  // The offset of element k of a line, in the order of the sum, within the line.
  KAON_HOST_DEVICE int64_t offset(int64_t k) const { return (reverse ? n - 1 - k : k) * inner; }
};

}  // namespace kaon::ops

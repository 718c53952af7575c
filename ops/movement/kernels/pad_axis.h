// The source of each element of a padded axis. A light header.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/movement/movement.h"

namespace kaon::ops {

struct PadAxis {
  int64_t before = 0, n = 0, after = 0;
  PadMode mode = PadMode::constant;

  KAON_HOST_DEVICE int64_t padded() const { return before + n + after; }
  // The element that position `at` of the padded axis is a copy of; -1: of none, it is the constant.
  KAON_HOST_DEVICE int64_t source(int64_t at) const {
    const int64_t i = at - before;
    if (i >= 0 && i < n) return i;
    if (mode == PadMode::constant) return -1;
    if (mode == PadMode::edge) return i < 0 ? 0 : n - 1;
    return i < 0 ? -i : 2 * (n - 1) - i;
  }
  // Calls f(position) for the copies of element i, ascending.
  template <class F>
  KAON_HOST_DEVICE void for_each_copy(int64_t i, const F& f) const {
    if (mode == PadMode::edge) {
      const int64_t end = i == n - 1 ? padded() : before + i + 1;
      for (int64_t at = i == 0 ? 0 : before + i; at < end; ++at) f(at);
      return;
    }
    const int64_t mirrored = 2 * (n - 1) - i;
    if (mode == PadMode::reflect && i > 0 && i <= before) f(before - i);
    f(before + i);
    if (mode == PadMode::reflect && mirrored >= n && mirrored < n + after) f(before + mirrored);
  }
};

inline PadAxis pad_axis(const IntTuple& pad_width, int axis, int64_t n, PadMode mode) {
  return {pad_width[2 * axis], n, pad_width[2 * axis + 1], mode};
}

}  // namespace kaon::ops

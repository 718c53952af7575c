// The positions and pixels of samples, for both devices.
#pragma once

#include <math.h>

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/spatial/spatial.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The two pixels of an axis that a position is between, with their weights and the derivatives of these.
template <class A>
struct AxisPair {
  int64_t low = 0, high = 0;
  A low_weight = 0, high_weight = 0, low_slope = 0, high_slope = 0;

  // edge: nothing outside of [0, size), the last pixel past its middle. Else: pixels outside are 0.
  KAON_HOST_DEVICE AxisPair(A at, int64_t size, bool edge) {
    if (!(at >= -1 && at < A(size)) || (edge && at < 0)) return;
    const A whole = A(::floor(at)), part = at - whole;
    const int64_t first = int64_t(whole);
    if (edge && first >= size - 1) {
      low = size - 1, low_weight = 1;
      return;
    }
    if (first >= 0) low = first, low_weight = 1 - part, low_slope = -1;
    if (first + 1 < size) high = first + 1, high_weight = part, high_slope = 1;
  }
};

// Parts of images that are sampled alike: each image (grid), or its groups of channels. A part has `channels` channels
// and `taps` segments of `points` positions; result (part, channel, tap, point) is at result(part, channel, tap) +
// point, of the mask at mask(part, tap) + point.
template <class T>
struct SampleJob {
  using A = accumulate_t<T>;
  SampleKind kind;
  int64_t images, groups, channels, height, width, taps = 1, points;
  int64_t columns;  // of the positions
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilate[2] = {1, 1}, pad[2] = {0, 0};
  const T* positions;
  const T* mask;

  // `data` and `where` are the shapes of the images and of the positions.
  template <class Op>
  SampleJob(const Op& op, const Shape& data, const Shape& where, const T* positions, const T* mask)
      : kind(op.kind),
        images(data[0]),
        groups(op.kind == SampleKind::grid ? 1 : op.num_deformable_group),
        channels(data[1] / groups),
        height(data[2]),
        width(data[3]),
        points(where[2] * where[3]),
        columns(where[3]),
        positions(positions),
        mask(mask) {
    if (kind == SampleKind::grid) return;
    taps = op.kernel[0] * op.kernel[1];
    for (int i = 0; i < 2; ++i) {
      kernel[i] = op.kernel[i];
      if (!op.stride.empty()) stride[i] = op.stride[i];
      if (!op.dilate.empty()) dilate[i] = op.dilate[i];
      if (!op.pad.empty()) pad[i] = op.pad[i];
    }
  }

  KAON_HOST_DEVICE int64_t parts() const { return images * groups; }
  KAON_HOST_DEVICE int64_t area() const { return height * width; }
  KAON_HOST_DEVICE bool stops_at_edges() const { return kind == SampleKind::deformed; }
  KAON_HOST_DEVICE int64_t plane(int64_t part, int64_t channel) const { return (part * channels + channel) * area(); }
  KAON_HOST_DEVICE int64_t result(int64_t part, int64_t channel, int64_t tap) const {
    if (kind == SampleKind::grid) return (part * channels + channel) * points;
    return (((part % groups * channels + channel) * taps + tap) * images + part / groups) * points;
  }
  KAON_HOST_DEVICE int64_t mask_row(int64_t part, int64_t tap) const { return (part * taps + tap) * points; }
  // Where the numbers of positions are: axis 0 is down, 1 to the right.
  KAON_HOST_DEVICE int64_t position_row(int64_t part, int64_t tap, int axis) const {
    return ((part * taps + tap) * 2 + (kind == SampleKind::grid ? 1 - axis : axis)) * points;
  }
  // By how many pixels a position moves with its number.
  KAON_HOST_DEVICE A step(int axis) const {
    return kind == SampleKind::grid ? A((axis == 0 ? height : width) - 1) / 2 : A(1);
  }
  // In pixels.
  KAON_HOST_DEVICE A position(int64_t part, int64_t tap, int64_t point, int axis) const {
    const A given = A(positions[position_row(part, tap, axis) + point]);
    if (kind == SampleKind::grid) return (given + 1) * step(axis);
    const int64_t window = axis == 0 ? point / columns : point % columns;
    const int64_t element = axis == 0 ? tap / kernel[1] : tap % kernel[1];
    return A(window * stride[axis] - pad[axis] + element * dilate[axis]) + given;
  }
};

}  // namespace kaon::ops

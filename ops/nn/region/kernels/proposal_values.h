// One row of proposals before suppression, and one proposal, for both devices.
#pragma once

#include <math.h>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/region/region.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Width and height of anchor `a`: those of its ratio are whole numbers, about as large as a place.
template <class A>
KAON_HOST_DEVICE inline void anchor_size(const op::ProposalRows& op, int64_t a, A (&size)[2]) {
  const int64_t count = op.scales.size();
  const A ratio = A(op.ratios[int(a / count)]), scale = A(op.scales[int(a % count)]);
  const A area = A(op.feature_stride) * A(op.feature_stride);
  const A across = A(::floor(A(::sqrt(A(::floor(area / ratio)))) + A(0.5)));
  size[0] = across * scale, size[1] = A(::floor(across * ratio + A(0.5))) * scale;
}

// Row e of _proposal_rows: A computes, data are of T.
template <class T, class A>
struct ProposalRow {
  op::ProposalRows op;
  int64_t anchors, height, width;
  const T *scores, *deltas, *info;
  A* out;

  ProposalRow(const op::ProposalRows& op, KernelContext& c)
      : op(op),
        anchors(c.in(0).shape[1] / 2),
        height(c.in(0).shape[2]),
        width(c.in(0).shape[3]),
        scores(c.in(0).as<const T>()),
        deltas(c.in(1).as<const T>()),
        info(c.in(2).as<const T>()),
        out(c.out().as<A>()) {}

  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t a = e % anchors, x = e / anchors % width, y = e / anchors / width % height;
    const int64_t image = e / anchors / width / height;
    const auto at = [&](const T* maps, int64_t channels, int64_t channel) {
      return A(maps[((image * channels + channel) * height + y) * width + x]);
    };
    const A stride = A(op.feature_stride), sizes[2] = {A(info[image * 3 + 1]), A(info[image * 3])};
    A score = at(scores, 2 * anchors, anchors + a);
    A begin[2], end[2];  // x, then y
    A extent[2];
    anchor_size(op, a, extent);
    bool is_small = false;
    const A least = A(op.rpn_min_size) * A(info[image * 3 + 2]);
    for (int axis = 0; axis < 2; ++axis) {
      const A middle = (stride - 1) / 2 + A(axis == 0 ? x : y) * stride;
      const A near = at(deltas, 4 * anchors, 4 * a + axis), far = at(deltas, 4 * anchors, 4 * a + axis + 2);
      const A low = middle - (extent[axis] - 1) / 2, high = middle + (extent[axis] - 1) / 2;
      if (op.iou_loss) {
        begin[axis] = low + near, end[axis] = high + far;
      } else {
        const A half = (A(::exp(far)) * extent[axis] - 1) / 2, moved = near * extent[axis] + middle;
        begin[axis] = moved - half, end[axis] = moved + half;
      }
      begin[axis] = within(begin[axis], sizes[axis] - 1), end[axis] = within(end[axis], sizes[axis] - 1);
      is_small = is_small || end[axis] - begin[axis] + 1 < least;
      if (A(axis == 0 ? x : y) >= A(::trunc(sizes[axis] / stride))) score = -1;
    }
    if (is_small) {
      for (int axis = 0; axis < 2; ++axis) begin[axis] -= least / 2, end[axis] += least / 2;
      score = -1;
    }
    A* const row = out + e * 5;
    row[0] = score, row[1] = begin[0], row[2] = begin[1], row[3] = end[0] + 1, row[4] = end[1] + 1;
  }

 private:
  // NaN stays.
  KAON_HOST_DEVICE static A within(A at, A last) {
    const A most = at > last ? last : at;
    return most < 0 ? A(0) : most;
  }
};

// Proposal e: its row, and its score.
template <class T>
struct ProposalRoi {
  int64_t count, rows;
  const T* from;
  const int64_t* kept;
  T *rois, *scores;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t image = e / count;
    const int64_t* const own = kept + image * rows;
    int64_t some = 0;  // are kept, up to `count`
    while (some < count && some < rows && own[some] >= 0) ++some;
    T* const roi = rois + e * 5;
    roi[0] = T(accumulate_t<T>(image));
    const int64_t number = some > 0 ? own[e % count % some] : -1;
    const T* const row = from + (image * rows + (number < rows ? number : rows - 1)) * 5;
    for (int i = 1; i < 5; ++i) {
      const accumulate_t<T> last = i > 2 ? 1 : 0;  // the pixel at the corner belongs to the box
      roi[i] = number < 0 ? T(accumulate_t<T>(0)) : T(accumulate_t<T>(row[i]) - last);
    }
    if (scores) scores[e] = number < 0 ? T(accumulate_t<T>(0)) : row[0];
  }
};

}  // namespace kaon::ops

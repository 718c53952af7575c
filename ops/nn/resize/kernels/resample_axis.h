// ResampleAxis: which pixels of an axis make each result, with which weights. For both devices.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/nn/resize/resize.h"

namespace kaon::ops {

// The linear map from `in` pixels to `out` results that op::Resample describes. Positions are exact: quotients of
// integers.
struct ResampleAxis {
  ResampleKind kind;
  bool align_corners;
  int64_t in, out;

  struct Range {
    int64_t begin, end;
  };

  // The pixels that result o is made of. Interpolation reads both neighbours, also where one has weight 0.
  KAON_HOST_DEVICE Range pixels_of(int64_t o) const {
    if (kind == ResampleKind::average) return {o * in / out, ((o + 1) * in + out - 1) / out};
    const int64_t first = kind == ResampleKind::nearest ? o * in / out : position(o).pixel;
    const bool has_second = kind == ResampleKind::bilinear && in != out && first + 1 < in;
    return {first, first + 1 + has_second};
  }

  // A range that has all results that pixel i is part of; weight() is 0 for the others in it.
  KAON_HOST_DEVICE Range results_of(int64_t i) const {
    if (kind == ResampleKind::nearest) return {(i * out + in - 1) / in, ((i + 1) * out + in - 1) / in};
    if (kind == ResampleKind::average) return {i * out / in, ((i + 1) * out + in - 1) / in};
    if (in == 1) return {0, out};
    if (align_corners)
      return {i == 0 ? 0 : (i - 1) * (out - 1) / (in - 1), least(out, (i + 1) * (out - 1) / (in - 1) + 2)};
    const int64_t begin = ((2 * i - 1) * out / in - 1) / 2 - 1;
    return {begin < 0 ? 0 : begin, i == in - 1 ? out : least(out, ((2 * i + 3) * out / in) / 2 + 2)};
  }

  // Of pixel i in result o; an average divides by the number of its pixels besides.
  template <class T>
  KAON_HOST_DEVICE T weight(int64_t o, int64_t i) const {
    const Range r = pixels_of(o);
    if (i < r.begin || i >= r.end) return T(0);
    if (r.end - r.begin == 1 || kind != ResampleKind::bilinear) return T(1);
    const Position p = position(o);
    const T second = T(p.rest) / T(p.of);
    return i == r.begin ? T(1) - second : second;
  }

  // By how many an average divides; else 1.
  KAON_HOST_DEVICE int64_t divisor(int64_t o) const {
    const Range r = pixels_of(o);
    return kind == ResampleKind::average ? r.end - r.begin : 1;
  }

 private:
  struct Position {  // pixel + rest / of
    int64_t pixel, rest, of;
  };
  KAON_HOST_DEVICE Position position(int64_t o) const {
    const int64_t of = align_corners ? out - 1 : 2 * out;
    const int64_t at = align_corners ? o * (in - 1) : (2 * o + 1) * in - out;
    if (out == 1 || at <= 0) return {0, 0, 1};  // as MXNet, whether corners are aligned or not
    return {at / of, at % of, of};
  }
  KAON_HOST_DEVICE static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
};

// Images as planes of rows of pixels of `inner` numbers each, and the map of a Resample along both axes: from the
// pixels at `source` to the results at `target`, or back when transposed.
struct ResampleJob {
  int64_t planes, inner;
  bool transposed;
  ResampleAxis rows, columns;

  ResampleJob(const op::Resample& op, const TensorView& data, const TensorView& result)
      : planes(data.shape[0]), inner(1), transposed(op.transposed) {
    const int64_t channels = data.shape[1];
    if (data.layout == Layout::channels_last) inner = channels;
    if (data.layout == Layout::blocked16) planes *= channels / 16, inner = 16;
    if (data.layout == Layout::row_major) planes *= channels;
    const Shape& pixels = transposed ? result.shape : data.shape;
    const Shape& results = transposed ? data.shape : result.shape;
    rows = {op.kind, op.align_corners, pixels[2], results[2]};
    columns = {op.kind, op.align_corners, pixels[3], results[3]};
  }
};

}  // namespace kaon::ops

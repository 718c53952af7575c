// The sizes of a convolution, apart from operators and the layouts of images.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include "kaon/ops/shape.h"

namespace kaon::ops {

// Which of the three computations.
enum class ConvKind { forward, backward_data, backward_weight };

// `in` is the larger side, which Convolution reads and Deconvolution writes. One-dimensional convolutions have a
// leading spatial axis of size 1.
struct ConvGeometry {
  int64_t batch = 0, groups = 1, in_channels = 0, out_channels = 0;
  int axes = 2;
  bool weights_channels_last =
      false;  // in memory (out_channels, taps..., in_channels / groups); else the taps are last
  std::array<int64_t, 3> in{}, out{}, kernel{}, stride{}, dilate{}, pad{};

  int64_t in_positions() const { return positions(in); }
  int64_t out_positions() const { return positions(out); }
  int64_t taps() const { return positions(kernel); }
  int64_t weights() const { return out_channels * (in_channels / groups) * taps(); }
  double flops_per_image() const { return 2.0 * double(out_positions()) * double(weights()); }
  // Window of one tap with step one and no border: a matrix product at every position.
  bool is_pointwise() const {
    for (int i = 0; i < axes; ++i) {
      if (kernel[size_t(i)] != 1 || stride[size_t(i)] != 1 || pad[size_t(i)] != 0) return false;
    }
    return true;
  }
  int64_t positions(const std::array<int64_t, 3>& size) const {
    return axes == 3 ? size[0] * size[1] * size[2] : size[0] * size[1];
  }
};

// From logical shapes: `in` (batch, in_channels, ...), `out` (batch, out_channels, ...). Empty attributes mean their
// defaults (1, 1 and 0 per axis).
inline ConvGeometry make_geometry(const Shape& in, const Shape& out, const Shape& kernel, const Shape& stride,
                                  const Shape& dilate, const Shape& pad, int groups) {
  ConvGeometry g;
  g.batch = in[0], g.groups = groups, g.in_channels = in[1], g.out_channels = out[1];
  const int given = kernel.ndim();
  g.axes = given == 1 ? 2 : given;
  const int shift = g.axes - given;
  for (int i = 0; i < g.axes; ++i) {
    const size_t k = size_t(i);
    const int from = i - shift;
    g.in[k] = from < 0 ? 1 : in[from + 2];
    g.out[k] = from < 0 ? 1 : out[from + 2];
    g.kernel[k] = from < 0 ? 1 : kernel[from];
    g.stride[k] = from < 0 || stride.ndim() == 0 ? 1 : stride[from];
    g.dilate[k] = from < 0 || dilate.ndim() == 0 ? 1 : dilate[from];
    g.pad[k] = from < 0 || pad.ndim() == 0 ? 0 : pad[from];
  }
  return g;
}

}  // namespace kaon::ops

// The windows of convolutions: their checks, and the extent of a transposed one.
#pragma once

#include <optional>

#include "kaon/ops/nn/conv/conv.h"

namespace kaon::ops {

// Throws ValueError or ShapeError when the window attributes do not fit `axes` spatial axes. For
// convolutions, transposed ones and pooling.
void check_window(InferContext& c, const Shape& kernel, const Shape& stride, const Shape& dilate, const Shape& pad,
                  int axes, const char* dilate_name = "dilate");

// Throws ValueError when the layout is not one of `axes` spatial axes, 1 to 3; only channels_last_too admits those with
// the channels last.
void check_layout(InferContext& c, std::optional<ConvLayout> layout, int axes, bool channels_last_too);

// The padding and adj in use and the shape of y for data of this shape; an axis that cannot be reached has a negative
// padding. Both shapes are (n, c, ...).
struct DeconvolutionExtent {
  Shape pad, adj, out;
};
inline DeconvolutionExtent extent_of(const op::Deconvolution& op, const Shape& data) {
  bool has_target = false;
  for (int64_t t : op.target_shape) has_target |= t != 0;
  DeconvolutionExtent e{.pad = Shape(), .adj = Shape(), .out = Shape(data[0], int64_t(op.num_filter))};
  for (int i = 0; i < op.kernel.ndim(); ++i) {
    const int64_t stride = op.stride.empty() ? 1 : op.stride[i], dilate = op.dilate.empty() ? 1 : op.dilate[i];
    const int64_t full = (data[i + 2] - 1) * stride + dilate * (op.kernel[i] - 1) + 1;
    if (has_target) {
      const int64_t surplus = full - op.target_shape[i];
      e.pad.push_back(surplus < 0 ? -1 : (surplus + 1) / 2);
      e.adj.push_back(surplus < 0 ? 0 : surplus % 2);
      e.out.push_back(op.target_shape[i]);
    } else {
      e.pad.push_back(op.pad.empty() ? 0 : op.pad[i]);
      e.adj.push_back(op.adj.empty() ? 0 : op.adj[i]);
      e.out.push_back(full - 2 * e.pad[i] + e.adj[i]);
    }
  }
  return e;
}

}  // namespace kaon::ops

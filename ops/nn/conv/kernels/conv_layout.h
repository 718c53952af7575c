// Shapes and tensors in the order of axes that the attribute `layout` names. A light header: .cu files read it.
#pragma once

#include <optional>

#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The axis of channels of images with so many dimensions.
constexpr int channel_axis(const std::optional<ConvLayout>& layout, int ndim) {
  return is_channels_last(layout) ? ndim - 1 : 1;
}

// The shape (n, c, ...) of images, or of weights, whose shape is `given` in this layout.
inline Shape channels_first(const Shape& given, const std::optional<ConvLayout>& layout) {
  if (!is_channels_last(layout)) return given;
  Shape s(given[0], given[given.ndim() - 1]);
  for (int i = 1; i + 1 < given.ndim(); ++i) s.push_back(given[i]);
  return s;
}

// The reverse: the shape in this layout of images (n, c, ...).
inline Shape in_layout(const Shape& first, const std::optional<ConvLayout>& layout) {
  if (!is_channels_last(layout)) return first;
  Shape s;
  for (int i = 0; i < first.ndim(); ++i) {
    if (i != 1) s.push_back(first[i]);
  }
  s.push_back(first[1]);
  return s;
}

// The same memory as images (n, c, ...), which are then channels last for the kernels.
inline TensorView as_images(TensorView view, const std::optional<ConvLayout>& layout) {
  if (!is_channels_last(layout)) return view;
  view.shape = channels_first(view.shape, layout);
  view.layout = Layout::channels_last;
  return view;
}

// The sizes of a convolution with images (n, c, ...) of these shapes. Op: ConvolutionOp, or Deconvolution with
// its padding in use, whose result is `in`.
template <class Op>
ConvGeometry geometry_of(const Op& op, const Shape& in, const Shape& out) {
  ConvGeometry g = make_geometry(in, out, op.kernel, op.stride, op.dilate, op.pad, op.num_group);
  g.weights_channels_last = is_channels_last(op.layout);
  return g;
}

}  // namespace kaon::ops

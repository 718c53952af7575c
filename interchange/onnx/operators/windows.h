// Windows over the spatial axes of images (n, c, ...): what convolutions and pooling share.
#pragma once

#include <vector>

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// By spatial axis.
struct Windows {
  std::vector<int64_t> input, kernel, stride, dilation, before, after, output;  // before, after: elements of padding
  int axes() const { return int(kernel.size()); }
  int64_t extent(int i) const { return dilation[size_t(i)] * (kernel[size_t(i)] - 1) + 1; }
  bool is_symmetric() const { return before == after; }
  Shape kernel_shape() const;
  Shape stride_shape() const;
  Shape dilation_shape() const;
  Shape before_shape() const;
};

// The attributes kernel_shape (or `kernel`), strides, dilations, pads, auto_pad and ceil_mode of images of this shape.
Windows windows_of(const Call& c, const Shape& images, std::vector<int64_t> kernel);

}  // namespace kaon::onnx::convert

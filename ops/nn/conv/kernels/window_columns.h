// The geometry of im2col and col2im, for both devices.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

// One axis of images: `size` pixels, `windows` of `kernel` pixels each.
struct WindowAxis {
  int64_t size = 1, windows = 1, kernel = 1, stride = 1, dilate = 1, pad = 0;

  // The pixel of element `i` of a window; it may lie outside of the image.
  KAON_HOST_DEVICE int64_t pixel(int64_t window, int64_t i) const { return window * stride - pad + i * dilate; }
  // The window whose element `i` is this pixel; -1: there is none.
  KAON_HOST_DEVICE int64_t window(int64_t pixel, int64_t i) const {
    const int64_t at = pixel + pad - i * dilate;
    return at >= 0 && at % stride == 0 && at / stride < windows ? at / stride : -1;
  }
};

// Images (planes, y.size, x.size) and their columns (planes, y.kernel, x.kernel, y.windows, x.windows).
struct WindowColumns {
  int64_t planes = 0;
  WindowAxis y, x;
  int64_t rows() const { return planes * y.kernel * x.kernel; }
  KAON_HOST_DEVICE int64_t windows() const { return y.windows * x.windows; }

  // The pixel that is in this row and column; 0 outside of the image.
  template <class T>
  KAON_HOST_DEVICE T element(const T* images, int64_t row, int64_t column) const {
    const int64_t plane = row / (y.kernel * x.kernel), i = row / x.kernel % y.kernel, j = row % x.kernel;
    const int64_t py = y.pixel(column / x.windows, i), px = x.pixel(column % x.windows, j);
    const bool is_inside = py >= 0 && py < y.size && px >= 0 && px < x.size;
    return is_inside ? images[(plane * y.size + py) * x.size + px] : T(0);
  }
  // The sum of the elements of columns that are this pixel.
  template <class T>
  KAON_HOST_DEVICE T sum(const T* columns, int64_t plane, int64_t py, int64_t px) const {
    accumulate_t<T> sum = 0;
    for (int64_t i = 0; i < y.kernel; ++i) {
      const int64_t wy = y.window(py, i);
      for (int64_t j = 0; wy >= 0 && j < x.kernel; ++j) {
        const int64_t wx = x.window(px, j);
        if (wx < 0) continue;
        const int64_t row = (plane * y.kernel + i) * x.kernel + j;
        sum += accumulate_t<T>(columns[row * windows() + wy * x.windows + wx]);
      }
    }
    return T(sum);
  }
};

// Of images of h x w pixels, with the attributes of im2col and col2im.
template <class Op>
WindowColumns window_columns(const Op& op, int64_t planes, int64_t h, int64_t w) {
  const auto axis = [&](int a, int64_t size) {
    WindowAxis made{.size = size, .kernel = op.kernel[a]};
    if (!op.stride.empty()) made.stride = op.stride[a];
    if (!op.dilate.empty()) made.dilate = op.dilate[a];
    if (!op.pad.empty()) made.pad = op.pad[a];
    const int64_t room = size + 2 * made.pad - (made.kernel - 1) * made.dilate - 1;
    made.windows = room < 0 ? 0 : room / made.stride + 1;
    return made;
  };
  return {.planes = planes, .y = axis(0, h), .x = axis(1, w)};
}

}  // namespace kaon::ops

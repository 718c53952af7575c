// The geometry of im2col and col2im, for both devices.
#pragma once

#include <algorithm>

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
  // The windows [first, end) whose element `i` is inside of the image.
  int64_t first_inside(int64_t i) const {
    return std::clamp<int64_t>((pad - i * dilate + stride - 1) / stride, 0, windows);
  }
  int64_t end_inside(int64_t i) const {
    const int64_t room = size + pad - i * dilate;  // window * stride is below it
    return room <= 0 ? 0 : std::min(windows, (room + stride - 1) / stride);
  }
};

// Images (planes, z.size, y.size, x.size) and their columns (planes, z.kernel, y.kernel, x.kernel, z.windows,
// y.windows, x.windows). Axes that the images lack have size 1.
struct WindowColumns {
  int64_t planes = 0;
  WindowAxis z, y, x;
  int64_t taps() const { return z.kernel * y.kernel * x.kernel; }
  int64_t rows() const { return planes * taps(); }
  KAON_HOST_DEVICE int64_t windows() const { return z.windows * y.windows * x.windows; }
  int64_t pixels() const { return z.size * y.size * x.size; }

  // The pixel that is in this row and column; 0 outside of the image.
  template <class T>
  KAON_HOST_DEVICE T element(const T* images, int64_t row, int64_t column) const {
    const int64_t px = x.pixel(column % x.windows, row % x.kernel);
    row /= x.kernel, column /= x.windows;
    const int64_t py = y.pixel(column % y.windows, row % y.kernel);
    row /= y.kernel, column /= y.windows;
    const int64_t pz = z.pixel(column, row % z.kernel);
    const bool is_inside = pz >= 0 && pz < z.size && py >= 0 && py < y.size && px >= 0 && px < x.size;
    return is_inside ? images[((row / z.kernel * z.size + pz) * y.size + py) * x.size + px] : T(0);
  }
  // Calls visit(offset of the windows' line in the columns, element along x) for the lines that hold pixels of the
  // image's line (plane, pz, py).
  template <class Visit>
  KAON_HOST_DEVICE void each_line(int64_t plane, int64_t pz, int64_t py, const Visit& visit) const {
    for (int64_t h = 0; h < z.kernel; ++h) {
      const int64_t wz = z.window(pz, h);
      for (int64_t i = 0; i < y.kernel && wz >= 0; ++i) {
        const int64_t wy = y.window(py, i);
        for (int64_t j = 0; j < x.kernel && wy >= 0; ++j) {
          const int64_t row = ((plane * z.kernel + h) * y.kernel + i) * x.kernel + j;
          visit(row * windows() + (wz * y.windows + wy) * x.windows, j);
        }
      }
    }
  }
  // The sum of the elements of columns that are this pixel.
  template <class T>
  KAON_HOST_DEVICE T sum(const T* columns, int64_t plane, int64_t pz, int64_t py, int64_t px) const {
    accumulate_t<T> sum = 0;
    each_line(plane, pz, py, [&](int64_t line, int64_t j) {
      const int64_t wx = x.window(px, j);
      if (wx >= 0) sum += accumulate_t<T>(columns[line + wx]);
    });
    return T(sum);
  }
};

// With the attributes of im2col and col2im, of one to three axes, of images (n, c, ...).
template <class Op>
WindowColumns window_columns(const Op& op, int64_t planes, const Shape& images) {
  WindowColumns all{.planes = planes, .z = {}, .y = {}, .x = {}};
  WindowAxis* const axes[] = {&all.z, &all.y, &all.x};
  const int count = op.kernel.ndim();
  for (int a = 0; a < count; ++a) {
    WindowAxis& axis = *axes[3 - count + a];
    axis.size = images[a + 2], axis.kernel = op.kernel[a];
    if (!op.stride.empty()) axis.stride = op.stride[a];
    if (!op.dilate.empty()) axis.dilate = op.dilate[a];
    if (!op.pad.empty()) axis.pad = op.pad[a];
    const int64_t room = axis.size + 2 * axis.pad - (axis.kernel - 1) * axis.dilate - 1;
    axis.windows = room < 0 ? 0 : room / axis.stride + 1;
  }
  return all;
}

}  // namespace kaon::ops

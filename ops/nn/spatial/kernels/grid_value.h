// One element of a grid, for both devices.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/spatial/spatial.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

template <class T>
struct GridValue {
  using A = accumulate_t<T>;
  bool is_affine;
  int64_t height, width;
  A across, down;  // from one pixel to the next
  const T* data;
  T* out;

  GridValue(const op::GridGenerator& op, KernelContext& c)
      : is_affine(op.transform_type == GridTransform::affine),
        height(c.out().shape[2]),
        width(c.out().shape[3]),
        across(width > 1 ? A(2) / A(width - 1) : A(0)),
        down(height > 1 ? A(2) / A(height - 1) : A(0)),
        data(c.in(0).as<const T>()),
        out(c.out().as<T>()) {}

  // Element x of line (image, axis, row); axis 0 is x.
  KAON_HOST_DEVICE void operator()(int64_t line, int64_t x) const {
    const int64_t i = line * width + x, axis = line / height % 2, y = line % height;
    const A at_x = width > 1 ? A(x) * across - 1 : A(0), at_y = height > 1 ? A(y) * down - 1 : A(0);
    if (is_affine) {
      const T* const row = data + line / height * 3;
      out[i] = T(A(row[0]) * at_x + A(row[1]) * at_y + A(row[2]));
    } else {
      out[i] = T((axis == 0 ? at_x : at_y) + A(data[i]) * (axis == 0 ? across : down));
    }
  }
};

}  // namespace kaon::ops

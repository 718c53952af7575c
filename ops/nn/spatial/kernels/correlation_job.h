// The sizes of a correlation, and what two pixels give, for both devices.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/spatial/spatial.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

struct CorrelationJob {
  int64_t images = 0, channels = 0, height = 0, width = 0;  // of the data
  int64_t kernel = 1, reach = 0, stride1 = 1, stride2 = 1, pad = 0;
  int64_t radius = 0, across = 0;  // in steps of stride2; displacements of an axis
  int64_t rows = 0, columns = 0;   // of the result
  bool is_multiply = true;

  template <class Op>
  CorrelationJob(const Op& op, const Shape& data)
      : images(data[0]),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        kernel(op.kernel_size),
        reach(op.max_displacement),
        stride1(op.stride1),
        stride2(op.stride2),
        pad(op.pad_size),
        radius(reach / stride2),
        across(2 * radius + 1),
        rows(places(height)),
        columns(places(width)),
        is_multiply(op.is_multiply) {}

  Shape out() const { return {images, across * across, rows, columns}; }
  KAON_HOST_DEVICE int64_t padded_height() const { return height + 2 * pad; }
  KAON_HOST_DEVICE int64_t padded_width() const { return width + 2 * pad; }
  KAON_HOST_DEVICE int64_t terms() const { return kernel * kernel * channels; }
  KAON_HOST_DEVICE int64_t divisor() const { return terms() > 0 ? terms() : 1; }
  KAON_HOST_DEVICE int64_t shift(int64_t displacement) const { return (displacement - radius) * stride2; }

  template <class A>
  KAON_HOST_DEVICE A term(A a, A b) const {
    if (is_multiply) return a * b;
    return a < b ? b - a : a - b;
  }
  // The derivative of a term by a, or `second` by b: 1 and -1 where |a - b| has none, as in MXNet.
  template <class A>
  KAON_HOST_DEVICE A slope(A a, A b, bool second) const {
    if (is_multiply) return second ? a : b;
    const A difference = a - b, sign = difference >= 0 ? A(1) : difference < 0 ? A(-1) : difference;
    return second ? -sign : sign;
  }

 private:
  // Not above 0: there is no room for a patch that moves.
  int64_t places(int64_t size) const {
    const int64_t room = size + 2 * pad - 2 * (reach + kernel / 2);
    return room <= 0 ? 0 : (room + stride1 - 1) / stride1;
  }
};

}  // namespace kaon::ops

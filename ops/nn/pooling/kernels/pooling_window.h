// Which elements the windows of a pooling cover. A light header.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/nn/pooling/pooling.h"

namespace kaon::ops {

// The windows of one call: global pooling has one, over everything.
struct PoolWindows {
  Shape kernel, stride, pad, dilation, out;
};

template <class Op>
PoolWindows pool_windows(const Op& op, const Shape& data) {
  PoolWindows w;
  const int axes = data.ndim() - 2;
  w.out = Shape(data[0], data[1]);
  for (int i = 0; i < axes; ++i) {
    const int64_t in = data[i + 2];
    const int64_t kernel = op.global_pool ? in : op.kernel[i];
    const int64_t stride = op.global_pool || op.stride.empty() ? 1 : op.stride[i];
    const int64_t pad = op.global_pool || op.pad.empty() ? 0 : op.pad[i];
    w.kernel.push_back(kernel);
    w.stride.push_back(stride);
    w.pad.push_back(pad);
    int64_t dilation = 1;
    if constexpr (requires { op.dilation; }) {
      if (!op.global_pool && !op.dilation.empty()) dilation = op.dilation[i];
    }
    w.dilation.push_back(dilation);
    const int64_t room = in + 2 * pad - (kernel - 1) * dilation - 1;
    switch (op.pooling_convention) {
      case PoolingConvention::valid: w.out.push_back(room < 0 ? 0 : room / stride + 1); break;
      case PoolingConvention::full: w.out.push_back(room < 0 ? 0 : (room + stride - 1) / stride + 1); break;
      case PoolingConvention::same: w.out.push_back((in + stride - 1) / stride); break;
    }
    if (op.global_pool) w.out[i + 2] = 1;
  }
  return w;
}

// The part of a window inside the data, per axis, and the numbers of elements there and within the padded data.
struct PoolWindow {
  int64_t begin[3], end[3];
  int64_t padded = 1, real = 1;
};

// Three axes whatever the geometry has.
struct PoolSizes {
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  explicit PoolSizes(const ConvGeometry& g) {
    for (int a = 0; a < 3; ++a) {
      const int from = g.axes == 3 ? a : a - 1;
      const size_t k = size_t(from < 0 ? 0 : from);
      in[a] = from < 0 ? 1 : g.in[k], out[a] = from < 0 ? 1 : g.out[k], kernel[a] = from < 0 ? 1 : g.kernel[k];
      stride[a] = from < 0 ? 1 : g.stride[k], pad[a] = from < 0 ? 0 : g.pad[k];
      dilation[a] = from < 0 ? 1 : g.dilate[k];
    }
  }
  KAON_HOST_DEVICE int64_t extent(int axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
  // How many elements a run of `length` positions has.
  KAON_HOST_DEVICE int64_t elements(int axis, int64_t length) const {
    if (length <= 0 || dilation[axis] == 1) return std::max<int64_t>(0, length);
    return (length - 1) / dilation[axis] + 1;
  }
  KAON_HOST_DEVICE void clip(int axis, int64_t position, PoolWindow& w) const {
    const int64_t start = position * stride[axis] - pad[axis];
    w.padded *= elements(axis, std::min(start + extent(axis), in[axis] + pad[axis]) - start);
    w.begin[axis] = start < 0 ? start + elements(axis, -start) * dilation[axis] : start;
    w.end[axis] = std::max(w.begin[axis], std::min(start + extent(axis), in[axis]));
    w.real *= elements(axis, w.end[axis] - w.begin[axis]);
  }
  KAON_HOST_DEVICE PoolWindow window(int64_t z, int64_t y, int64_t x) const {
    PoolWindow w{};
    w.padded = w.real = 1;
    clip(0, z, w);
    clip(1, y, w);
    clip(2, x, w);
    return w;
  }
  PoolWindow window(int64_t position) const {
    return window(position / (out[1] * out[2]), position / out[2] % out[1], position % out[2]);
  }
};

// The divisor of the sum over a window.
KAON_HOST_DEVICE inline int64_t pool_divisor(PoolType type, bool count_pad, const PoolWindow& w) {
  return type == PoolType::avg ? std::max<int64_t>(1, count_pad ? w.padded : w.real) : 1;
}

}  // namespace kaon::ops

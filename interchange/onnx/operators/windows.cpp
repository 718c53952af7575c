#include "kaon/interchange/onnx/operators/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

Shape Windows::kernel_shape() const { return as_shape(kernel); }
Shape Windows::stride_shape() const { return as_shape(stride); }
Shape Windows::dilation_shape() const { return as_shape(dilation); }
Shape Windows::before_shape() const { return as_shape(before); }

Windows windows_of(const Call& c, const Shape& images, std::vector<int64_t> kernel) {
  Windows w;
  const size_t n = kernel.size();
  if (int(n) != images.ndim() - 2 || n == 0) c.fail(fmt::format("a kernel of {} axes for shape {}", n, images.str()));
  w.kernel = std::move(kernel);
  const std::vector<int64_t> ones(n, 1);
  w.stride = c.integers("strides", ones);
  w.dilation = c.integers("dilations", ones);
  const std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * n, 0));
  if (w.stride.size() != n || w.dilation.size() != n || pads.size() != 2 * n) {
    c.fail("kernel_shape, strides, dilations and pads differ in length");
  }
  const std::string automatic = c.text("auto_pad", "NOTSET");
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = images[int(i) + 2], stride = w.stride[i];
    if (stride < 1 || w.dilation[i] < 1 || w.kernel[i] < 1) c.fail("kernel, stride and dilation must be positive");
    const int64_t extent = w.dilation[i] * (w.kernel[i] - 1) + 1;
    int64_t before = pads[i], after = pads[i + n], out = 0;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      out = (in + stride - 1) / stride;
      const int64_t total = std::max<int64_t>(0, (out - 1) * stride + extent - in);
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    } else {
      if (automatic == "VALID") before = after = 0;
      const int64_t room = in + before + after - extent;
      out = room < 0 ? 0 : (room + (ceil ? stride - 1 : 0)) / stride + 1;
      // the last window begins inside the image or the padding before it
      if (ceil && out > 0 && (out - 1) * stride >= in + before) --out;
    }
    w.input.push_back(in);
    w.before.push_back(before), w.after.push_back(after), w.output.push_back(out);
  }
  return w;
}

}  // namespace kaon::onnx::convert

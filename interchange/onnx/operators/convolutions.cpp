// Convolutions, their transposes, and columns of windows.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/convolutions.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"

namespace kaon::onnx::convert {

ConvolutionCall convolution_call(const Call& c, const Symbol& x, const Shape& w, double padding) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < w.ndim(); ++i) kernel.push_back(w[i]);
  const Windows windows = windows_of(c, shape_of(x), kernel);
  op::Convolution op{.kernel = windows.kernel_shape(),
                     .stride = windows.stride_shape(),
                     .dilate = windows.dilation_shape(),
                     .num_filter = int(w[0]),
                     .num_group = int(c.integer("group", 1)),
                     .no_bias = true};
  const bool negative = std::ranges::any_of(windows.before, [](int64_t b) { return b < 0; });
  const bool pads = std::ranges::any_of(windows.before, [](int64_t b) { return b != 0; });
  if (windows.is_symmetric() && !negative && (padding == 0 || !pads)) {
    op.pad = windows.before_shape();
    return {op, x};
  }
  std::vector<int64_t> before{0, 0}, after{0, 0};
  before.insert(before.end(), windows.before.begin(), windows.before.end());
  after.insert(after.end(), windows.after.begin(), windows.after.end());
  return {op, padded(x, before, after, padding)};
}

Symbol convolution(const Call& c, const Symbol& x, const Symbol& weight, const Symbol* bias) {
  ConvolutionCall call = convolution_call(c, x, shape_of(weight));
  call.op.no_bias = !bias;
  return bias ? sym.Convolution(call.x, weight, *bias, call.op) : sym.Convolution(call.x, weight, call.op);
}

namespace {

void conv(Call& c) {
  if (c.rank() < 3 || c.rank() > 5) c.fail_supported(fmt::format("data of shape {}", c.shape().str()));
  if (const auto layer = integer_convolution(c)) return set_numbers(c, layer);
  const Symbol bias = c.has(2) ? c.x(2) : Symbol();
  c.set(convolution(c, c.x(0), c.x(1), c.has(2) ? &bias : nullptr));
}

void conv_transpose(Call& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const size_t n = size_t(x.ndim() - 2);
  if (n < 1 || n > 3 || w.ndim() != x.ndim()) c.fail_supported(fmt::format("data of shape {}", x.str()));
  const int64_t groups = c.integer("group", 1);
  const std::vector<int64_t> ones(n, 1), none(n, 0);
  const std::vector<int64_t> stride = c.integers("strides", ones), dilation = c.integers("dilations", ones);
  std::vector<int64_t> extra = c.integers("output_padding", none);
  std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * n, 0));
  std::vector<int64_t> wanted = c.integers("output_shape");
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const std::string automatic = c.text("auto_pad", "NOTSET");
  std::vector<int64_t> whole, out;
  for (size_t i = 0; i < n; ++i) {
    const int64_t full_size = (x[int(i) + 2] - 1) * stride[i] + dilation[i] * (w[int(i) + 2] - 1) + 1;
    whole.push_back(full_size);
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      const int64_t size = wanted.empty() ? x[int(i) + 2] * stride[i] : wanted[i];
      const int64_t total = full_size + extra[i] - size;
      const int64_t half = total / 2;
      pads[i] = automatic == "SAME_UPPER" ? half : total - half;
      if (automatic == "NOTSET") pads[i] = half;
      pads[i + n] = total - pads[i];
    }
    out.push_back(full_size + extra[i] - pads[i] - pads[i + n]);
  }
  op::Deconvolution op{.kernel = from(w, 2),
                       .stride = as_shape(stride),
                       .dilate = as_shape(dilation),
                       .num_filter = int(w[1] * groups),
                       .num_group = int(groups)};
  bool direct = true;
  for (size_t i = 0; i < n; ++i)
    direct &= pads[i] == pads[i + n] && pads[i] >= 0 && extra[i] < std::max(stride[i], dilation[i]) && extra[i] >= 0;
  if (direct) {
    op.pad = Shape(std::span<const int64_t>(pads).first(n));
    op.adj = as_shape(extra);
    return c.set(c.has(2) ? sym.Deconvolution(c.x(0), c.x(1), c.x(2), op) : sym.Deconvolution(c.x(0), c.x(1), op));
  }
  // the whole result, cut and padded
  Symbol y = sym.Deconvolution(c.x(0), c.x(1), op);
  std::vector<int64_t> before{0, 0}, after{0, 0};
  for (size_t i = 0; i < n; ++i) {
    const int64_t begin = std::max<int64_t>(0, pads[i]), end = std::min(whole[i], pads[i] + out[i]);
    y = slice_along(y, int(i) + 2, begin, end);
    before.push_back(std::max<int64_t>(0, -pads[i]));
    after.push_back(out[i] - before.back() - (end - begin));
  }
  y = padded(y, before, after);
  c.set(c.has(2) ? sym.broadcast_add(y, per_channel(c.x(2), c.rank())) : y);
}

void col2im(Call& c) {
  const std::vector<int64_t> image = c.integers(1), block = c.integers(2);
  const size_t n = image.size();
  const std::vector<int64_t> ones(n, 1);
  const std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * n, 0));
  std::vector<int64_t> whole = image;
  for (size_t i = 0; i < n; ++i) whole[i] += pads[i] + pads[i + n];
  Symbol y = sym.col2im(c.x(), {.output_size = as_shape(whole),
                                .kernel = as_shape(block),
                                .stride = as_shape(c.integers("strides", ones)),
                                .dilate = as_shape(c.integers("dilations", ones))});
  for (size_t i = 0; i < n; ++i) y = slice_along(y, int(i) + 2, pads[i], pads[i] + image[i]);
  c.set(y);
}

// X, W, offset, bias, mask
void deform_conv(Call& c) {
  const Shape &x = c.shape(0), &w = c.shape(1), &offset = c.shape(2);
  if (x.ndim() != 4) c.fail_supported(fmt::format("data of shape {}", x.str()));
  const Windows windows = windows_of(c, x, {w[2], w[3]});
  const int64_t groups = c.integer("offset_group", 1);
  Symbol data = c.x(0);
  op::ModulatedDeformableConvolution op{.kernel = windows.kernel_shape(),
                                        .stride = windows.stride_shape(),
                                        .dilate = windows.dilation_shape(),
                                        .num_filter = int(w[0]),
                                        .num_group = int(c.integer("group", 1)),
                                        .num_deformable_group = int(groups)};
  if (windows.is_symmetric()) op.pad = windows.before_shape();
  else data = padded(data, {0, 0, windows.before[0], windows.before[1]}, {0, 0, windows.after[0], windows.after[1]});
  // without a mask each sample counts whole
  const Symbol mask = c.has(4) ? c.x(4) : full(Shape(offset[0], offset[1] / 2, offset[2], offset[3]), 1, c.dtype());
  if (c.has(3)) return c.set(sym.ModulatedDeformableConvolution(data, c.x(2), mask, c.x(1), c.x(3), op));
  c.set(sym.ModulatedDeformableConvolution(data, c.x(2), mask, c.x(1), op));
}

constexpr Row convolution_table[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"Col2Im", col2im},
    {"DeformConv", deform_conv, 19},
};

}  // namespace

std::span<const Row> convolution_rows() { return convolution_table; }

}  // namespace kaon::onnx::convert

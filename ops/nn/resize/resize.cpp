#include "kaon/ops/nn/resize/resize.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Refuses all but images with pixels. Returns their shape.
Shape images(const InferContext& c, int input = 0) {
  c.expect_ndim(input, 4);
  const Shape shape = c.shape(input);
  if (shape[2] < 1 || shape[3] < 1) {
    c.fail(fmt::format("images must have at least one pixel; inputs: {}", c.describe_inputs()));
  }
  return shape;
}

Shape resized(Shape shape, int64_t height, int64_t width) {
  shape[2] = height, shape[3] = width;
  return shape;
}

NDArray resampled(const NDArray& x, const op::Resample& op) {
  return x.shape()[2] == op.height && x.shape()[3] == op.width ? x : nd._resample(x, op);
}

}  // namespace

// --- BilinearResize2D

constinit const OpDef op::BilinearResize2D::def = make_op_def<op::BilinearResize2D>();

void op::BilinearResize2D::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  const Shape data = images(c);
  // the size of an axis of `size` pixels
  const auto sized = [&](const char* name, int64_t size, int64_t given, const std::optional<double>& scale, int axis) {
    const auto scaled = [&](int64_t pixels) {
      if (!scale || !(*scale > 0)) {
        c.fail_value(
            fmt::format("scale_{} must be positive, got {}", name, scale ? fmt::format("{}", *scale) : "None"));
      }
      return int64_t(double(pixels) * *scale);
    };
    switch (mode) {
      case ResizeMode::size: return scale ? scaled(size) : given;
      case ResizeMode::odd_scale: return size % 2 == 0 ? scaled(size) : scaled(size - 1) + 1;
      case ResizeMode::like: return images(c, 1)[axis];
      case ResizeMode::to_even_down: return size - size % 2;
      case ResizeMode::to_even_up: return size + size % 2;
      case ResizeMode::to_odd_down: return size - (size + 1) % 2;
      case ResizeMode::to_odd_up: return size + (size + 1) % 2;
    }
    return given;
  };
  const int64_t h = sized("height", data[2], height, scale_height, 2);
  const int64_t w = sized("width", data[3], width, scale_width, 3);
  if (h < 1 || w < 1) {
    c.fail_value(fmt::format("the result must have at least one pixel, got {} x {} from data {}", h, w, data.str()));
  }
  c.set_output(resized(data, h, w), c.dtype());
}

void op::BilinearResize2D::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  c.set(resampled(c.input(),
                  {.kind = ResampleKind::bilinear, .height = out[2], .width = out[3], .align_corners = align_corners}));
}

// --- AdaptiveAvgPooling2D

constinit const OpDef op::AdaptiveAvgPooling2D::def = make_op_def<op::AdaptiveAvgPooling2D>();

void op::AdaptiveAvgPooling2D::infer(InferContext& c) const {
  c.expect_floating();
  const Shape data = images(c);
  if (output_size.ndim() > 2 || !output_size.is_known()) {
    c.fail_value(fmt::format("output_size must be (rows, columns), one number or (), got {}", output_size.str()));
  }
  const bool is_one = output_size.empty();
  c.set_output(resized(data, is_one ? 1 : output_size[0], is_one ? 1 : output_size.back()), c.dtype());
}

void op::AdaptiveAvgPooling2D::compose(ComposeContext& c) const {
  const Shape &in = c.input().shape(), &out = c.output().shape;
  if (out[2] == 1 && out[3] == 1) {
    c.set(nd.Pooling(c.input(), {.pool_type = PoolType::avg, .global_pool = true}));
  } else if (out[2] > 0 && out[3] > 0 && in[2] % out[2] == 0 && in[3] % out[3] == 0) {
    const Shape window(in[2] / out[2], in[3] / out[3]);
    c.set(nd.Pooling(c.input(), {.kernel = window, .pool_type = PoolType::avg, .stride = window}));
  } else {
    c.set(nd._resample(c.input(), {.kind = ResampleKind::average, .height = out[2], .width = out[3]}));
  }
}

// --- UpSampling

constinit const OpDef op::UpSampling::def = make_op_def<op::UpSampling>();

void op::UpSampling::infer(InferContext& c) const {
  if (c.num_inputs() == 0) c.fail_value("needs at least one input, got none");
  c.expect_same_dtype();
  c.expect_floating();
  if (scale < 1) c.fail_value(fmt::format("scale must be at least 1, got {}", scale));
  Shape out = images(c);
  const int64_t channels = out[1];
  out = resized(out, out[2] * scale, out[3] * scale);
  if (sample_type == UpSamplingType::bilinear) {
    if (num_filter != 0 && num_filter != channels) {
      c.fail_value(fmt::format("num_filter must be the number of channels, {}, got {}", channels, num_filter));
    }
    const int64_t kernel = 2 * scale - scale % 2;
    c.expect_shape(1, {channels, 1, kernel, kernel});
    return c.set_output(out, c.dtype());
  }
  if (num_args < 1) c.fail_value(fmt::format("num_args must be at least 1, got {}", num_args));
  for (int i = 1; i < c.num_inputs(); ++i) {
    const Shape one = images(c, i);
    if (one[0] != out[0] || out[2] % one[2] || out[3] % one[3] ||
        (multi_input_mode == MultiInputMode::sum && one[1] != out[1])) {
      c.fail(fmt::format("input {} must have {} images{} of a size that divides {} x {}, got {}", i, out[0],
                         multi_input_mode == MultiInputMode::sum ? fmt::format(" of {} channels", out[1]) : "", out[2],
                         out[3], one.str()));
    }
    if (multi_input_mode == MultiInputMode::concat) out[1] += one[1];
  }
  c.set_output(out, c.dtype());
}

void op::UpSampling::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  if (sample_type == UpSamplingType::bilinear) {
    const int kernel = 2 * scale - scale % 2, pad = scale / 2;
    return c.set(nd.Deconvolution(c.input(0), c.input(1),
                                  {.kernel = Shape(kernel, kernel),
                                   .stride = Shape(scale, scale),
                                   .pad = Shape(pad, pad),
                                   .num_filter = int(out[1]),
                                   .num_group = int(out[1])}));
  }
  std::vector<NDArray> large;
  for (int i = 0; i < c.num_inputs(); ++i) {
    large.push_back(resampled(c.input(i), {.kind = ResampleKind::nearest, .height = out[2], .width = out[3]}));
  }
  c.set(large.size() == 1 ? large[0] : multi_input_mode == MultiInputMode::concat ? nd.concat(large) : nd.add_n(large));
}

// --- Crop

constinit const OpDef op::Crop::def = make_op_def<op::Crop>();

namespace {

// Where the part begins along an axis of `size` pixels.
int64_t crop_begin(const op::Crop& op, int axis, int64_t size, int64_t part) {
  return op.center_crop ? (size - part) / 2 : op.offset[axis];
}

}  // namespace

void op::Crop::infer(InferContext& c) const {
  if (num_args != 1 && num_args != 2) c.fail_value(fmt::format("num_args must be 1 or 2, got {}", num_args));
  if (offset.ndim() != 2 || h_w.ndim() != 2) {
    c.fail_value(fmt::format("offset and h_w must have two numbers, got {} and {}", offset.str(), h_w.str()));
  }
  const Shape data = images(c);
  if (num_args == 2) c.expect_ndim(1, 4);
  const Shape part = num_args == 2 ? Shape(c.shape(1)[2], c.shape(1)[3]) : h_w;
  for (int axis : {0, 1}) {
    const int64_t size = data[axis + 2], begin = crop_begin(*this, axis, size, part[axis]);
    if (part[axis] < 1 || begin < 0 || begin + part[axis] > size) {
      c.fail(fmt::format("{} {} from {} on are not in data {}", part[axis], axis == 0 ? "rows" : "columns", begin,
                         data.str()));
    }
  }
  c.set_output(resized(data, part[0], part[1]), c.dtype());
}

void op::Crop::compose(ComposeContext& c) const {
  const Shape &in = c.input().shape(), &out = c.output().shape;
  const int64_t y = crop_begin(*this, 0, in[2], out[2]), x = crop_begin(*this, 1, in[3], out[3]);
  c.set(nd.slice(c.input(), {std::nullopt, std::nullopt, y, x}, {std::nullopt, std::nullopt, y + out[2], x + out[3]}));
}

}  // namespace kaon

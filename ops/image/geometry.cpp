// to_tensor, normalize, crop, resize and flips.
#include <fmt/format.h>

#include <vector>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/image/image.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void expect_image(const InferContext& c) {
  const int n = c.shape(0).ndim();
  if (n != 3 && n != 4) c.fail("data must be one image or a batch, 3 or 4 dimensions, got " + c.shape(0).str());
}

// With other rows and columns, which are dimensions `rows` and rows + 1.
Shape resized(Shape s, int rows, int64_t height, int64_t width) {
  s[rows] = height;
  s[rows + 1] = width;
  return s;
}

}  // namespace

// --- to_tensor and normalize

constinit const OpDef op::ImageToTensor::def = make_op_def<op::ImageToTensor>();

void op::ImageToTensor::infer(InferContext& c) const {
  expect_image(c);
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool");
  const Shape& s = c.shape(0);
  Shape out;
  if (s.ndim() == 4) out.push_back(s[0]);
  for (int64_t d : {s.back(), s[s.ndim() - 3], s[s.ndim() - 2]}) out.push_back(d);
  c.set_output(out, DType::float32);
}

void op::ImageToTensor::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const NDArray y = nd.transpose(x, x.ndim() == 4 ? Shape(0, 3, 1, 2) : Shape(2, 0, 1));
  c.set(in_dtype(y, DType::float32) / 255);
}

constinit const OpDef op::ImageNormalize::def = make_op_def<op::ImageNormalize>();

void op::ImageNormalize::infer(InferContext& c) const {
  expect_image(c);
  c.expect_floating();
  const Shape& s = c.shape(0);
  const int64_t channels = s[s.ndim() - 3];
  if (channels != 1 && channels != 3) c.fail("data must have 1 or 3 channels in front of the rows, got " + s.str());
  for (const auto& [name, tuple] : {std::pair("mean", &mean), std::pair("std", &std)}) {
    if (tuple->size() == 1 || tuple->size() == channels) continue;
    c.fail_value(fmt::format("{} must have 1 number or {}, got {}", name, channels, to_text(*tuple)));
  }
  for (int i = 0; i < std.size(); ++i) {
    if (std[i] == 0) c.fail_value(fmt::format("std must not be 0, got {}", to_text(std)));
  }
  c.set_output(s, c.dtype());
}

void op::ImageNormalize::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const auto by_channel = [&](const FloatTuple& t) {
    return nd.array(std::vector<double>(t.data(), t.data() + t.size()), Shape(t.size(), 1, 1), {.dtype = x.dtype()});
  };
  c.set((x - by_channel(mean)) / by_channel(std));
}

// --- crop and resize

constinit const OpDef op::ImageCrop::def = make_op_def<op::ImageCrop>();

void op::ImageCrop::infer(InferContext& c) const {
  expect_image(c);
  const Shape& s = c.shape(0);
  const int rows = s.ndim() - 3;
  if (width < 1 || height < 1) {
    c.fail_value(fmt::format("width and height must be positive, got {} and {}", width, height));
  }
  if (x < 0 || y < 0 || x > s[rows + 1] - width || y > s[rows] - height) {
    c.fail(
        fmt::format("{} rows from {} on and {} columns from {} on are not in data {}", height, y, width, x, s.str()));
  }
  c.set_output(resized(s, rows, height, width), c.dtype());
}

void op::ImageCrop::compose(ComposeContext& c) const {
  const int rows = c.input().ndim() - 3;
  OptionalShape begin, end;
  for (int i = 0; i < rows; ++i) begin.push_back({}), end.push_back({});
  begin.push_back(y), begin.push_back(x);
  end.push_back(y + height), end.push_back(x + width);
  c.set(nd.slice(c.input(), begin, end));
}

constinit const OpDef op::ImageResize::def = make_op_def<op::ImageResize>();

void op::ImageResize::infer(InferContext& c) const {
  expect_image(c);
  if (c.dtype() != DType::uint8 && !is_floating(c.dtype())) {
    c.fail_dtype("is implemented for floating dtypes and uint8, got " + to_text(c.dtype()));
  }
  if (interp != 1) c.fail_value(fmt::format("interp must be 1, bilinear; {} is not implemented", interp));
  if ((size.ndim() != 1 && size.ndim() != 2) || !size.is_known() || size[0] < 1 || size.back() < 1) {
    c.fail_value("size must be (width, height) or one number, at least 1, got " + size.str());
  }
  const Shape& s = c.shape(0);
  const int rows = s.ndim() - 3;
  int64_t height = s[rows], width = s[rows + 1];
  if (height == 0 || width == 0) c.fail("data must have at least one pixel, got " + s.str());
  if (size.ndim() == 1 && keep_ratio) {
    const bool tall = height > width;
    const int64_t longer = (tall ? height : width) * size[0] / (tall ? width : height);
    height = tall ? longer : size[0];
    width = tall ? size[0] : longer;
  } else {
    height = size.back();
    width = size[0];
  }
  c.set_output(resized(s, rows, height, width), c.dtype());
}

void op::ImageResize::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const int rows = out.ndim() - 3;
  const DType dtype = c.output().dtype;
  NDArray x = dtype == DType::uint8 ? nd.cast(c.input(), DType::float32) : c.input();
  if (rows == 0) x = nd.expand_dims(x, 0);
  // _resample takes the first pixel where one is asked for; the middle one of three lies where it should
  const auto odd = [](int64_t n) { return n == 1 ? 3 : n; };
  NDArray y = nd._resample(
      nd.transpose(x, Shape(0, 3, 1, 2)),
      {.kind = ResampleKind::bilinear, .height = odd(out[rows]), .width = odd(out[rows + 1]), .align_corners = false});
  for (int axis : {0, 1}) {
    if (out[rows + axis] == 1) y = nd.slice_axis(y, axis + 2, 1, 2);
  }
  y = nd._reshape_to(nd.transpose(y, Shape(0, 2, 3, 1)), {.shape = out});
  if (dtype != DType::uint8) return c.set(y);
  // Half a unit is rounded up on every device, whichever way float32 left it: rounded to 1/1024 first, it is exact.
  c.set(nd.cast(nd.round(nd.round(y * 1024) / 1024), dtype));
}

// --- flips

void ops::infer_flip(InferContext& c) {
  expect_image(c);
  c.set_output(c.shape(0), c.dtype());
}

void ops::compose_flip(ImageFlip flip, ComposeContext& c) {
  const NDArray& x = c.input();
  const bool columns = flip == ImageFlip::left_right || flip == ImageFlip::random_left_right;
  const NDArray flipped = nd.reverse(x, Shape(columns ? x.ndim() - 2 : x.ndim() - 3));
  if (!is_random(flip)) return c.set(flipped);
  const Shape one = x.ndim() == 4 ? Shape(x.shape()[0], 1, 1, 1) : Shape(1, 1, 1);
  c.set(nd.where(nd.broadcast_like(nd.random_uniform(one) < 0.5, x), flipped, x));
}

template <ImageFlip F>
constinit const OpDef op::ImageFlipped<F>::def = make_op_def<op::ImageFlipped<F>>();

template struct op::ImageFlipped<ImageFlip::left_right>;
template struct op::ImageFlipped<ImageFlip::top_bottom>;
template struct op::ImageFlipped<ImageFlip::random_left_right>;
template struct op::ImageFlipped<ImageFlip::random_top_bottom>;

}  // namespace kaon

// to_tensor, normalize, crop, resize and flips.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
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

// --- resize

// All but bilinear ones are sums of takes: each pixel along an axis of the result is made of a few pixels beside each
// other, as many for all, with weights.
namespace {

// The numbers of interp, which are OpenCV's.
constexpr int interp_nearest = 0, interp_bilinear = 1, interp_cubic = 2, interp_area = 3, interp_lanczos = 4;

// Of each result along an axis, in float64: the first of its pixels, which may lie outside as well, and the weights.
struct ResizeTaps {
  NDArray first;
  std::vector<NDArray> weights;  // none: the one pixel itself
};

// The scale, and the operations on it, are rounded as in OpenCV: of two pixels that are equally near it takes the same.
class ResizeAxis {
 public:
  ResizeAxis(int64_t in, int64_t out)
      : scale_(1 / (double(out) / double(in))), places_(nd.arange(double(out), {.dtype = DType::float64})) {}

  ResizeTaps taps(int interp, bool both_shrink) const {
    if (interp == interp_nearest) return {nd.floor(places_ * scale_), {}};
    if (interp == interp_area) return both_shrink ? whole_area() : two_pixels();
    const NDArray at = (places_ + 0.5) * scale_ - 0.5, left = nd.floor(at), rest = at - left;
    return interp == interp_cubic ? ResizeTaps{left - 1, keys(rest)} : ResizeTaps{left - 3, sincs(rest)};
  }

 private:
  // The mean of the part of the image that the pixel takes up.
  ResizeTaps whole_area() const {
    const NDArray begin = places_ * scale_, end = begin + scale_, left = nd.floor(begin);
    ResizeTaps taps{left, {}};
    for (int64_t k = 0; k <= int64_t(std::ceil(scale_)); ++k) {
      const NDArray from = nd.maximum(left + double(k), begin), to = nd.minimum(left + double(k + 1), end);
      taps.weights.push_back(nd.maximum(to - from, 0.0) / scale_);
    }
    return taps;
  }
  // What OpenCV has for the area where an axis gets longer: the second pixel counts for all behind the first.
  ResizeTaps two_pixels() const {
    const NDArray left = nd.floor(places_ * scale_);
    const NDArray behind = nd.maximum((places_ + 1) - (left + 1) / scale_, 0.0);
    const NDArray second = behind - nd.floor(behind);
    return {left, {1 - second, second}};
  }
  // Keys' kernel with a = -3/4, of the pixels at the distances 1 + x, x, 1 - x and 2 - x.
  static std::vector<NDArray> keys(const NDArray& x) {
    constexpr double a = -0.75;
    const auto near = [](const NDArray& t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
    const NDArray t = x + 1, first = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a, second = near(x), third = near(1 - x);
    return {first, second, third, 1 - first - second - third};
  }
  // sinc(t) sinc(t / 4) of eight pixels, divided by the sum. All have the factor |sin(pi t)| in common.
  static std::vector<NDArray> sincs(const NDArray& x) {
    const NDArray whole = x == 0, safe = nd.where(whole, nd.ones_like(x), x);
    std::vector<NDArray> weights;
    NDArray total;
    for (int k = -3; k <= 4; ++k) {
      const NDArray t = safe - double(k);
      const NDArray w = nd.sin(t * (std::numbers::pi / 4)) / (t * t) * (k % 2 == 0 ? 1.0 : -1.0);
      weights.push_back(w);
      total = total.defined() ? total + w : w;
    }
    for (int k = -3; k <= 4; ++k) {
      NDArray& w = weights[size_t(k + 3)];
      w = nd.where(whole, k == 0 ? nd.ones_like(x) : nd.zeros_like(x), w / total);
    }
    return weights;
  }

  double scale_;
  NDArray places_;
};

// Pixels outside are those at the edge.
NDArray resized_along(const NDArray& x, int axis, const ResizeTaps& taps) {
  const auto pixels = [&](int64_t k) {
    return nd.take(x, nd.cast(taps.first + double(k), DType::int64), {.axis = axis, .mode = IndexMode::clip});
  };
  if (taps.weights.empty()) return pixels(0);
  Shape across = Shape::filled(x.ndim(), 1);
  across[axis] = taps.first.size();
  NDArray sum;
  for (size_t k = 0; k < taps.weights.size(); ++k) {
    const NDArray weights = nd._reshape_to(nd.cast(taps.weights[k], x.dtype()), {.shape = across});
    const NDArray part = nd.broadcast_mul(pixels(int64_t(k)), weights);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

NDArray resized_bilinear(const NDArray& image, const Shape& out) {
  const int rows = out.ndim() - 3;
  const NDArray x = rows == 0 ? nd.expand_dims(image, 0) : image;
  // _resample takes the first pixel where one is asked for; the middle one of three lies where it should
  const auto odd = [](int64_t n) { return n == 1 ? 3 : n; };
  NDArray y = nd._resample(
      nd.transpose(x, Shape(0, 3, 1, 2)),
      {.kind = ResampleKind::bilinear, .height = odd(out[rows]), .width = odd(out[rows + 1]), .align_corners = false});
  for (int axis : {0, 1}) {
    if (out[rows + axis] == 1) y = nd.slice_axis(y, axis + 2, 1, 2);
  }
  return nd._reshape_to(nd.transpose(y, Shape(0, 2, 3, 1)), {.shape = out});
}

}  // namespace

constinit const OpDef op::ImageResize::def = make_op_def<op::ImageResize>();

void op::ImageResize::infer(InferContext& c) const {
  expect_image(c);
  const Shape& s = c.shape(0);
  if (c.dtype() != DType::uint8 && !is_floating(c.dtype())) {
    c.fail_dtype("is implemented for floating dtypes and uint8, got " + to_text(c.dtype()));
  }
  if (interp < interp_nearest || interp > interp_lanczos)
    c.fail_value(fmt::format("interp must be 0, 1, 2, 3 or 4, got {}", interp));
  if ((size.ndim() != 1 && size.ndim() != 2) || !size.is_known() || size[0] < 1 || size.back() < 1) {
    c.fail_value("size must be (width, height) or one number, at least 1, got " + size.str());
  }
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
  const Shape &in = c.input().shape(), &out = c.output().shape;
  const int rows = out.ndim() - 3;
  const DType dtype = c.output().dtype;
  // _resample adds 16-bit floats in float32 itself
  const bool adds =
      interp != interp_nearest && (dtype == DType::uint8 || (size_of(dtype) == 2 && interp != interp_bilinear));
  NDArray y = adds ? nd.cast(c.input(), DType::float32) : c.input();
  if (interp == interp_bilinear) {
    y = resized_bilinear(y, out);
  } else {
    const bool both_shrink = out[rows] <= in[rows] && out[rows + 1] <= in[rows + 1];
    for (const int axis : {rows, rows + 1}) {
      if (out[axis] != in[axis]) y = resized_along(y, axis, ResizeAxis(in[axis], out[axis]).taps(interp, both_shrink));
    }
  }
  if (y.dtype() == dtype) return c.set(y);
  if (dtype != DType::uint8) return c.set(nd.cast(y, dtype));
  if (interp == interp_cubic || interp == interp_lanczos) y = nd.clip(y, 0, 255);  // their weights are negative in part
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

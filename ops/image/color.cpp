// Changes of colours.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/image/image.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void infer_colored(InferContext& c) {
  const Shape& s = c.shape(0);
  if ((s.ndim() != 3 && s.ndim() != 4) || (s.back() != 1 && s.back() != 3)) {
    c.fail("data must be (height, width, channels) or a batch of these, with 1 or 3 channels, got " + s.str());
  }
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool");
  c.set_output(s, c.dtype());
}

// Colours are computed in float32, in float64 for data of that dtype.
NDArray computed(const NDArray& x) {
  return in_dtype(x, x.dtype() == DType::float64 ? DType::float64 : DType::float32);
}

NDArray as_stored(const NDArray& y, DType dtype) {
  if (y.dtype() == dtype) return y;
  if (is_floating(dtype) || size_of(dtype) > 2) return nd.cast(y, dtype);
  const double levels = size_of(dtype) == 1 ? 256 : 65536, least = is_unsigned(dtype) ? 0 : -levels / 2;
  return nd.cast(nd.clip(y, least, least + levels - 1), dtype);
}

// One factor for each image.
NDArray drawn_factor(const NDArray& x, double low, double high) {
  const Shape one = x.ndim() == 4 ? Shape(x.shape()[0], 1, 1, 1) : Shape(1, 1, 1);
  return nd.random_uniform(one, {.low = low, .high = high, .dtype = x.dtype()});
}

NDArray channel(const NDArray& x, int i) { return nd.slice_axis(x, -1, i, i + 1); }

// One channel, of images or of their mean colours.
NDArray grey(const NDArray& x) {
  if (x.shape().back() == 1) return x;
  return channel(x, 0) * 0.299 + channel(x, 1) * 0.587 + channel(x, 2) * 0.114;
}

// With red, green or blue the largest, the hue is (green - blue) / chroma, 2 + (blue - red) / chroma or
// 4 + (red - green) / chroma, in sixths of a turn. A hue has each channel between the smallest and the largest number
// of the pixel: a part of the chroma that rises and falls with the distance from the channel's own hue.
NDArray hue_turned(const NDArray& x, const NDArray& turns) {
  if (x.shape().back() == 1) return x;
  const NDArray red = channel(x, 0), green = channel(x, 1), blue = channel(x, 2);
  const op::Max largest{.axis = Shape(-1), .keepdims = true};
  const op::Min smallest{.axis = Shape(-1), .keepdims = true};
  const NDArray high = nd.max(x, largest), low = nd.min(x, smallest), chroma = high - low;
  const NDArray divisor = chroma + (chroma == 0);
  const NDArray by_blue = (red - green) / divisor + 4, by_green = (blue - red) / divisor + 2;
  const NDArray hue = nd.where(red == high, (green - blue) / divisor, nd.where(green == high, by_green, by_blue));
  const NDArray turned = hue + turns * 6;
  const auto part = [&](double own) {
    const NDArray distance = nd.abs(nd.modulo(turned - (own - 3), 6) - 3);
    return low + chroma * nd.clip(2 - distance, 0, 1);
  };
  return nd.concat({.dim = x.ndim() - 1}, part(0), part(2), part(4));
}

NDArray changed(ColorChange change, const NDArray& x, const NDArray& factor) {
  switch (change) {
    case ColorChange::brightness: return x * factor;
    case ColorChange::contrast: {
      const NDArray mean = nd.mean(x, {.axis = Shape(x.ndim() - 3, x.ndim() - 2), .keepdims = true});
      return x * factor + grey(mean) * (1 - factor);
    }
    case ColorChange::saturation: return x.shape().back() == 1 ? x : x * factor + grey(x) * (1 - factor);
    default: return hue_turned(x, factor);
  }
}

// The three colours to add for numbers along the principal components, whose vectors are scaled by their deviations.
struct Component {
  double deviation, color[3];
};
constexpr Component components[] = {
    {55.46, {-0.5675, -0.5808, -0.5836}}, {4.794, {0.7192, -0.0045, -0.6948}}, {1.148, {0.4009, -0.8140, 0.4203}}};

}  // namespace

void ops::infer_color(double min_factor, double max_factor, InferContext& c) {
  if (!(min_factor >= 0 && min_factor <= max_factor) || !std::isfinite(max_factor)) {
    c.fail_value(fmt::format("min_factor must not be negative and must not exceed max_factor, got {} and {}",
                             to_text(min_factor), to_text(max_factor)));
  }
  infer_colored(c);
}

void ops::compose_color(ColorChange change, double min_factor, double max_factor, ComposeContext& c) {
  const NDArray x = computed(c.input());
  c.set(as_stored(changed(change, x, drawn_factor(x, min_factor, max_factor)), c.output().dtype));
}

template <ColorChange C>
constinit const OpDef op::ImageRandomColor<C>::def = make_op_def<op::ImageRandomColor<C>>();

template struct op::ImageRandomColor<ColorChange::brightness>;
template struct op::ImageRandomColor<ColorChange::contrast>;
template struct op::ImageRandomColor<ColorChange::saturation>;
template struct op::ImageRandomColor<ColorChange::hue>;

constinit const OpDef op::ImageRandomColorJitter::def = make_op_def<op::ImageRandomColorJitter>();

void op::ImageRandomColorJitter::infer(InferContext& c) const {
  for (double amount : {brightness, contrast, saturation, hue}) {
    if (!(amount >= 0) || !std::isfinite(amount)) {
      c.fail_value(
          fmt::format("brightness, contrast, saturation and hue must not be negative, got {}", to_text(amount)));
    }
  }
  infer_colored(c);
}

void op::ImageRandomColorJitter::compose(ComposeContext& c) const {
  NDArray x = computed(c.input());
  const double amounts[] = {brightness, contrast, saturation, hue};
  for (int i = 0; i < 4; ++i) {
    const double a = amounts[i];
    if (a > 0) x = changed(ColorChange(i), x, drawn_factor(x, std::max(0.0, 1 - a), 1 + a));
  }
  c.set(as_stored(x, c.output().dtype));
}

constinit const OpDef op::ImageAdjustLighting::def = make_op_def<op::ImageAdjustLighting>();

void op::ImageAdjustLighting::infer(InferContext& c) const {
  if (alpha.size() != 3) c.fail_value(fmt::format("alpha must have 3 numbers, got {}", to_text(alpha)));
  infer_colored(c);
}

void op::ImageAdjustLighting::compose(ComposeContext& c) const {
  if (c.input().shape().back() == 1) return c.set(nd._copy(c.input()));
  const NDArray x = computed(c.input());
  std::vector<double> light(3);
  for (int j = 0; j < 3; ++j) {
    for (int i = 0; i < 3; ++i) light[size_t(i)] += double(alpha[j]) * components[j].deviation * components[j].color[i];
  }
  c.set(as_stored(x + nd.array(light, Shape(3), {.dtype = x.dtype()}), c.output().dtype));
}

constinit const OpDef op::ImageRandomLighting::def = make_op_def<op::ImageRandomLighting>();

void op::ImageRandomLighting::infer(InferContext& c) const {
  if (!(alpha_std >= 0)) c.fail_value("alpha_std must not be negative, got " + to_text(alpha_std));
  infer_colored(c);
}

void op::ImageRandomLighting::compose(ComposeContext& c) const {
  if (c.input().shape().back() == 1) return c.set(nd._copy(c.input()));
  const NDArray x = computed(c.input());
  std::vector<double> vectors;
  for (const Component& one : components) {
    for (double v : one.color) vectors.push_back(one.deviation * v);
  }
  const bool batch = x.ndim() == 4;
  const int64_t images = batch ? x.shape()[0] : 1;
  const NDArray alpha = nd.random_normal({images, 3}, {.scale = alpha_std, .dtype = x.dtype()});
  const NDArray light = nd.dot(alpha, nd.array(vectors, Shape(3, 3), {.dtype = x.dtype()}));
  const Shape to = batch ? Shape(images, 1, 1, 3) : Shape(1, 1, 3);
  c.set(as_stored(x + nd._reshape_to(light, {.shape = to}), c.output().dtype));
}

}  // namespace kaon

// Images at another size, and sampled at positions that other arrays give.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/resize.h"

namespace kaon::onnx::convert {

namespace {

ResizeKind kind_of(const Call& c, const std::string& mode) {
  if (mode == "nearest") return ResizeKind::nearest;
  if (mode == "linear" || mode == "bilinear") return ResizeKind::linear;
  if (mode == "cubic") return ResizeKind::cubic;
  c.fail("mode must be nearest, linear or cubic, got '" + mode + "'");
}

// x resized along one axis.
Symbol resized(const Symbol& x, int axis, const ResizeAxis& a) {
  const ResizeWeights r = resize_weights(a);
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, a.in - 1); };
  if (a.kind == ResizeKind::nearest) {
    std::vector<int64_t> from;
    for (int64_t i : r.first) from.push_back(clamped(i));
    return sym.take(x, constant(from), {.axis = axis});
  }
  std::vector<double> matrix(size_t(a.in * a.out));  // (in, out)
  for (int64_t o = 0; o < a.out; ++o) {
    for (size_t i = 0; i < r.weights[size_t(o)].size(); ++i) {
      matrix[size_t(clamped(r.first[size_t(o)] + int64_t(i)) * a.out + o)] += r.weights[size_t(o)][i];
    }
  }
  std::vector<int64_t> axes(size_t(rank_of(x)));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[size_t(axis)], axes.back());
  const Symbol rows = transposed(x, axes);
  const Shape s = shape_of(rows);
  const Symbol flat = reshaped(rows, Shape(s.product(0, s.ndim() - 1), a.in));
  const Symbol y = sym.dot(flat, constant(matrix, Shape(a.in, a.out), dtype_of(x)));
  return transposed(reshaped(y, with_dim(s, s.ndim() - 1, a.out)), axes);
}

struct Resizing {
  std::vector<ResizeAxis> axes;  // of all dimensions
  double extrapolation = 0;
};

void apply(Call& c, const Resizing& r) {
  const DType dtype = c.dtype();
  const bool interpolates = r.axes[0].kind != ResizeKind::nearest;
  const DType wide = is_floating(dtype) && size_of(dtype) >= 4 ? dtype : interpolates ? DType::float32 : dtype;
  Symbol y = cast(c.x(), wide);
  // bilinear images are one operator where its positions are these
  bool is_image = c.rank() == 4 && interpolates && r.axes[0].kind == ResizeKind::linear &&
                  r.axes[0].out == r.axes[0].in && r.axes[1].out == r.axes[1].in && is_floating(wide);
  for (int i = 2; is_image && i < 4; ++i) {
    const ResizeAxis& a = r.axes[size_t(i)];
    const bool positions =
        a.coordinates == "half_pixel" || a.coordinates == "pytorch_half_pixel" || a.coordinates == "align_corners";
    is_image = positions && a.out > 1 /* of one pixel it is the first */ && !a.antialias && !a.exclude_outside &&
               a.scale * double(a.in) == double(a.out) && a.in > 0;
  }
  if (is_image && (r.axes[2].coordinates == "align_corners") == (r.axes[3].coordinates == "align_corners")) {
    y = sym._resample(y, {.kind = ops::ResampleKind::bilinear,
                          .height = r.axes[2].out,
                          .width = r.axes[3].out,
                          .align_corners = r.axes[2].coordinates == "align_corners"});
    return c.set(cast(y, dtype));
  }
  Symbol outside;  // where any axis is
  for (int i = 0; i < c.rank(); ++i) {
    const ResizeAxis& a = r.axes[size_t(i)];
    const bool crops = a.coordinates == "tf_crop_and_resize" && (a.roi_begin != 0 || a.roi_end != 1);
    if (a.in == a.out && a.scale == 1 && !crops) continue;
    y = resized(y, i, a);
    if (!crops) continue;
    std::vector<double> flags;
    for (bool b : resize_weights(a).is_outside) flags.push_back(b);
    const Symbol row = constant(flags, with_dim(Shape::filled(c.rank(), 1), i, a.out), wide);
    outside = outside.defined() ? sym.broadcast_maximum(outside, row) : row;
  }
  if (outside.defined()) {
    y = sym.broadcast_where(outside, constant({r.extrapolation}, Shape::filled(c.rank(), 1), wide), y);
  }
  if (!is_floating(dtype) && interpolates)
    y = sym.clip(sym.around(y), dtype == DType::uint8 ? 0 : -128, dtype == DType::uint8 ? 255 : 127);
  c.set(cast(y, dtype));
}

// The product is rounded to float32 before it is cut, as PyTorch and ONNX Runtime do: of 10 pixels by 0.7 there are 7.
int64_t scaled(int64_t pixels, double scale) { return int64_t(std::floor(float(pixels) * float(scale))); }

// X, roi, scales, sizes
void resize(Call& c) {
  const int rank = c.rank();
  ResizeAxis common{
      .kind = kind_of(c, c.text("mode", "nearest")),
      .coordinates = c.opset() < 11 ? "asymmetric" : c.text("coordinate_transformation_mode", "half_pixel"),
      .nearest = c.opset() < 11 ? "floor" : c.text("nearest_mode", "round_prefer_floor"),
      .cubic_a = c.real("cubic_coeff_a", -0.75),
      .antialias = c.integer("antialias", 0) != 0,
      .exclude_outside = c.integer("exclude_outside", 0) != 0};
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  for (int64_t& a : axes) a = c.axis(a, rank);
  Resizing r{.axes = std::vector<ResizeAxis>(size_t(rank), common), .extrapolation = c.real("extrapolation_value", 0)};
  for (int i = 0; i < rank; ++i) r.axes[size_t(i)].in = r.axes[size_t(i)].out = c.shape()[i];
  const int scales_at = c.opset() < 11 ? 1 : 2;
  std::vector<double> scales;
  if (c.has(scales_at)) scales = c.numbers(scales_at);
  if (!scales.empty()) {
    if (scales.size() != axes.size()) c.fail(fmt::format("{} scales for {} axes", scales.size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizeAxis& a = r.axes[size_t(axes[i])];
      a.scale = scales[i];
      a.out = scaled(a.in, scales[i]);
    }
  } else {
    std::vector<int64_t> sizes = c.integers(3);
    if (sizes.size() != axes.size()) c.fail(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
    const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      double scale = policy == "not_larger" ? HUGE_VAL : 0;
      for (size_t i = 0; i < axes.size(); ++i) {
        const double own = double(sizes[i]) / double(c.shape()[int(axes[i])]);
        scale = policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
      }
      for (size_t i = 0; i < axes.size(); ++i) {
        ResizeAxis& a = r.axes[size_t(axes[i])];
        a.scale = scale;
        a.out = int64_t(std::floor(scale * double(a.in) + 0.5));
      }
    } else {
      for (size_t i = 0; i < axes.size(); ++i) {
        ResizeAxis& a = r.axes[size_t(axes[i])];
        a.out = sizes[i];
        a.scale = double(a.out) / double(a.in);
        a.by_sizes = true;
      }
    }
  }
  for (const ResizeAxis& a : r.axes) {
    if (a.out < 0 || (a.out > 0 && a.in == 0)) c.fail(fmt::format("{} pixels of {}", a.out, a.in));
  }
  if (common.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = c.numbers(1);
    if (roi.size() != 2 * axes.size()) c.fail(fmt::format("a roi of {} numbers for {} axes", roi.size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      r.axes[size_t(axes[i])].roi_begin = roi[i];
      r.axes[size_t(axes[i])].roi_end = roi[i + axes.size()];
    }
  }
  apply(c, r);
}

void upsample(Call& c) {
  const ResizeAxis common{
      .kind = kind_of(c, c.text("mode", "nearest")), .coordinates = "asymmetric", .nearest = "floor"};
  std::vector<double> scales;
  if (c.opset() >= 9) scales = c.numbers(1);
  else if (c.has("scales")) scales = c.reals("scales");
  else scales = {1, 1, c.real("height_scale", 1), c.real("width_scale", 1)};
  if (int(scales.size()) != c.rank()) c.fail(fmt::format("{} scales for shape {}", scales.size(), c.shape().str()));
  Resizing r{.axes = std::vector<ResizeAxis>(size_t(c.rank()), common), .extrapolation = 0};
  for (int i = 0; i < c.rank(); ++i) {
    ResizeAxis& a = r.axes[size_t(i)];
    a.in = c.shape()[i];
    a.scale = scales[size_t(i)];
    a.out = scaled(a.in, a.scale);
  }
  apply(c, r);
}

// --- GridSample: x (n, c, d...), positions (n, d'..., number of axes), the last axis first, from -1 to 1

// Positions outside mirrored at `low` and `high`.
Symbol reflected(const Symbol& x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return sym.zeros_like(x);
  const Symbol at = (x - low) % (2 * span);  // in [0, 2 span)
  return sym.minimum(at, 2 * span - at) + low;
}

struct Sampler {
  Symbol pixels;  // (n, c, all pixels)
  std::vector<int64_t> size;
  int64_t samples;
  std::string padding;
  bool align;

  // The pixels at whole positions (n, samples) along each axis.
  Symbol at(const std::vector<Symbol>& where) const {
    const Shape& s = shape_of(pixels);
    Symbol index, inside;
    for (size_t i = 0; i < where.size(); ++i) {
      const double n = double(size[i]);
      Symbol p = where[i];
      if (padding == "border") p = sym.clip(p, 0, n - 1);
      if (padding == "reflection") p = align ? reflected(p, 0, n - 1) : reflected(p, -0.5, n - 0.5);
      if (padding == "zeros") {
        const Symbol is = (p >= 0.0) * (p <= n - 1);
        inside = inside.defined() ? inside * is : is;
      }
      p = sym.clip(p, 0, n - 1);
      index = index.defined() ? index * n + p : p;
    }
    const Shape whole(s[0], s[1], samples);
    const Symbol i = broadcast(reshaped(cast(index, DType::int64), Shape(s[0], 1, samples)), whole);
    const Symbol y = sym.take_along_axis(pixels, i, {.axis = 2});
    return inside.defined() ? sym.broadcast_mul(y, reshaped(cast(inside, dtype_of(y)), Shape(s[0], 1, samples))) : y;
  }
};

void grid_sample(Call& c) {
  const Shape &x = c.shape(0), &grid = c.shape(1);
  const int axes = x.ndim() - 2;
  if (axes < 1 || grid.ndim() != x.ndim() || grid.back() != axes)
    c.fail(fmt::format("a grid {} for data {}", grid.str(), x.str()));
  std::string mode = c.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  Sampler sampler{.pixels = reshaped(cast(c.x(0), c.dtype() == DType::float64 ? DType::float64 : DType::float32),
                                     Shape(x[0], x[1], x.product(2, x.ndim()))),
                  .size = {},
                  .samples = grid.product(1, grid.ndim() - 1),
                  .padding = c.text("padding_mode", "zeros"),
                  .align = c.integer("align_corners", 0) != 0};
  for (int i = 0; i < axes; ++i) sampler.size.push_back(x[i + 2]);
  const DType wide = dtype_of(sampler.pixels);
  const Symbol flat = reshaped(cast(c.x(1), wide), Shape(x[0], sampler.samples, axes));
  std::vector<Symbol> where;
  for (int i = 0; i < axes; ++i) {
    const Symbol g = reshaped(slice_along(flat, 2, axes - 1 - i, axes - i), Shape(x[0], sampler.samples));
    const double n = double(sampler.size[size_t(i)]);
    Symbol p = sampler.align ? (g + 1) * ((n - 1) / 2) : ((g + 1) * n - 1) * 0.5;
    // the position itself is moved inside, but for cubic, where each pixel's is
    if (mode != "cubic" && sampler.padding == "border") p = sym.clip(p, 0, n - 1);
    if (mode != "cubic" && sampler.padding == "reflection")
      p = sampler.align ? reflected(p, 0, n - 1) : reflected(p, -0.5, n - 0.5);
    where.push_back(p);
  }
  Symbol y;
  if (mode == "nearest") {
    for (Symbol& p : where) p = sym.around(p);
    y = sampler.at(where);
  } else {
    const int taps = mode == "cubic" ? 4 : 2;
    std::vector<Symbol> first;
    std::vector<std::vector<Symbol>> weights;
    for (const Symbol& p : where) {
      const Symbol below = sym.floor(p), t = p - below;
      first.push_back(mode == "cubic" ? below - 1 : below);
      if (mode == "linear") {
        weights.push_back({1 - t, t});
        continue;
      }
      const double a = -0.75;
      const auto near = [&](const Symbol& d) { return (d * (a + 2) - (a + 3)) * sym.square(d) + 1; };
      const auto far = [&](const Symbol& d) { return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a; };
      weights.push_back({far(t + 1), near(t), near(1 - t), far(2 - t)});
    }
    int combinations = 1;
    for (int i = 0; i < axes; ++i) combinations *= taps;
    for (int k = 0; k < combinations; ++k) {
      std::vector<Symbol> at;
      Symbol weight;
      int rest = k;
      for (int i = 0; i < axes; ++i, rest /= taps) {
        const int tap = rest % taps;
        at.push_back(first[size_t(i)] + double(tap));
        const Symbol& w = weights[size_t(i)][size_t(tap)];
        weight = weight.defined() ? weight * w : w;
      }
      const Symbol part = sym.broadcast_mul(sampler.at(at), reshaped(weight, Shape(x[0], 1, sampler.samples)));
      y = y.defined() ? y + part : part;
    }
  }
  Shape result(x[0], x[1]);
  for (int i = 1; i + 1 < grid.ndim(); ++i) result.push_back(grid[i]);
  c.set(cast(reshaped(y, result), c.dtype()));
}

// theta (n, 2, 3) or (n, 3, 4), the size of the images: positions (n, d..., axes)
void affine_grid(Call& c) {
  const std::vector<int64_t> size = c.integers(1);
  const int axes = int(size.size()) - 2;
  const bool align = c.integer("align_corners", 0) != 0;
  if (axes < 2 || axes > 3) c.fail(fmt::format("a size of {} numbers", size.size()));
  int64_t positions = 1;
  for (int i = 0; i < axes; ++i) positions *= size[size_t(i) + 2];
  // (axes + 1, positions): the last axis first, then ones
  std::vector<double> base(size_t(positions * (axes + 1)), 1);
  for (int64_t p = 0; p < positions; ++p) {
    int64_t rest = p;
    for (int i = axes - 1; i >= 0; --i) {
      const int64_t n = size[size_t(i) + 2], at = rest % n;
      rest /= n;
      double x = align ? (n == 1 ? 0 : -1 + 2.0 * double(at) / double(n - 1)) : -1 + (2 * double(at) + 1) / double(n);
      if (align && n == 1) x = -1;
      base[size_t((axes - 1 - i) * positions + p)] = x;
    }
  }
  const DType wide = c.dtype() == DType::float64 ? DType::float64 : DType::float32;
  const Symbol grid =
      sym.matmul(cast(c.x(0), wide), constant(base, Shape(axes + 1, positions), wide));  // (n, axes, positions)
  Shape result(size[0]);
  for (int i = 0; i < axes; ++i) result.push_back(size[size_t(i) + 2]);
  result.push_back(axes);
  c.set(cast(reshaped(transposed(grid, {0, 2, 1}), result), c.dtype()));
}

constexpr Row image_table[] = {
    {"Resize", resize},
    {"Upsample", upsample},
    {"GridSample", grid_sample},
    {"AffineGrid", affine_grid},
};

}  // namespace

std::span<const Row> image_rows() { return image_table; }

}  // namespace kaon::onnx::convert

// Rows of the operators on images as files have them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Pixel = std::array<double, 3>;
const Shape shapes[] = {Shape(5, 7, 3),    Shape(3, 4, 1), Shape(2, 3, 5, 3), Shape(1, 1, 3, 1),
                        Shape(0, 3, 3, 3), Shape(3, 0, 3), Shape(1, 1, 3)};

// A result in the dtype of the image: cut to whole numbers and to the range of integers of up to 16 bits.
Host stored(Host y, const Host& x) {
  y.dtype = x.dtype;
  if (is_floating(*x.dtype)) return y;
  for (double& v : y.values) {
    if (x.dtype == DType::uint8) v = std::clamp(v, 0.0, 255.0);
    if (x.dtype == DType::int8) v = std::clamp(v, -128.0, 127.0);
    if (x.dtype == DType::uint16) v = std::clamp(v, 0.0, 65535.0);
    if (x.dtype == DType::int16) v = std::clamp(v, -32768.0, 32767.0);
    v = std::trunc(v);
  }
  return y;
}

double grey(const Pixel& p, int64_t channels) {
  return channels == 1 ? p[0] : 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

// Hue, lightness and saturation as textbooks have them, and back: another way than the operator's.
Pixel hue_turned(const Pixel& p, double turns) {
  const double high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]}), chroma = high - low;
  if (std::isnan(p[0] + p[1] + p[2])) return {NAN, NAN, NAN};
  if (chroma == 0) return p;
  double hue = high == p[0]   ? (p[1] - p[2]) / chroma
               : high == p[1] ? (p[2] - p[0]) / chroma + 2
                              : (p[0] - p[1]) / chroma + 4;
  hue = std::fmod(std::fmod(hue + 6 * turns, 6) + 6, 6);
  const double between = chroma * (1 - std::abs(std::fmod(hue, 2) - 1));
  const double parts[][3] = {{chroma, between, 0}, {between, chroma, 0}, {0, chroma, between},
                             {0, between, chroma}, {between, 0, chroma}, {chroma, 0, between}};
  const double* part = parts[std::min(5, int(hue))];
  return {low + part[0], low + part[1], low + part[2]};
}

// The result of f(pixel, mean grey of its image) for each pixel.
template <class F>
Host by_pixel(const Host& x, F f) {
  const int64_t channels = x.shape.back(), images = x.shape.ndim() == 4 ? x.shape[0] : 1;
  const int64_t pixels = x.size() / channels / std::max<int64_t>(1, images);
  Host y = x;
  const auto pixel = [&](int64_t i) {
    Pixel p{};
    for (int64_t c = 0; c < channels; ++c) p[size_t(c)] = x[size_t(i * channels + c)];
    return p;
  };
  for (int64_t n = 0; n < images; ++n) {
    double mean = 0;
    for (int64_t i = 0; i < pixels; ++i) mean += grey(pixel(n * pixels + i), channels) / double(pixels);
    for (int64_t i = n * pixels; i < (n + 1) * pixels; ++i) {
      const Pixel q = f(pixel(i), mean);
      for (int64_t c = 0; c < channels; ++c) y.values[size_t(i * channels + c)] = q[size_t(c)];
    }
  }
  return stored(y, x);
}

Pixel mixed(const Pixel& p, double factor, double other) {
  return {factor * p[0] + (1 - factor) * other, factor * p[1] + (1 - factor) * other,
          factor * p[2] + (1 - factor) * other};
}

void color_rows(Rows& rows) {
  const RowOptions any{.dtypes = numbers},
      real{.dtypes = numbers, .tried = floats | dtype_bit(DType::boolean), .loosen = 8};
  for (const Shape& s : shapes) {
    const std::vector<Input> image{in(s, Fill::positive)};
    rows.emplace_back(
        op::ImageRandomBrightness{1.25, 1.25}, image,
        [](const Hosts& x) { return by_pixel(x[0], [](const Pixel& p, double) { return mixed(p, 1.25, 0); }); }, any);
    for (double f : {0.5, 1.75}) {
      rows.emplace_back(
          op::ImageRandomContrast{f, f}, image,
          [f](const Hosts& x) {
            return by_pixel(x[0], [f](const Pixel& p, double mean) { return mixed(p, f, mean); });
          },
          real);
      rows.emplace_back(
          op::ImageRandomSaturation{f, f}, image,
          [f](const Hosts& x) {
            const int64_t channels = x[0].shape.back();
            return by_pixel(x[0],
                            [=](const Pixel& p, double) { return channels == 1 ? p : mixed(p, f, grey(p, channels)); });
          },
          real);
      RowOptions options = real;
      options.loosen = 64;
      options.loosen_gradient = 4;
      rows.emplace_back(
          op::ImageRandomHue{f + 0.1, f + 0.1}, std::vector{in(s, Fill::distinct)},
          [f](const Hosts& x) {
            const int64_t channels = x[0].shape.back();
            return by_pixel(x[0], [=](const Pixel& p, double) { return channels == 1 ? p : hue_turned(p, f + 0.1); });
          },
          options);
    }
    rows.emplace_back(
        op::ImageAdjustLighting{{0.5f, -0.25f, 2.0f}}, image,
        [](const Hosts& x) {
          const int64_t channels = x[0].shape.back();
          const double a = 0.5 * 55.46, b = -0.25 * 4.794, c = 2 * 1.148;
          return by_pixel(x[0], [=](const Pixel& p, double) {
            return channels == 1
                       ? p
                       : Pixel{p[0] - 0.5675 * a + 0.7192 * b + 0.4009 * c, p[1] - 0.5808 * a - 0.0045 * b - 0.8140 * c,
                               p[2] - 0.5836 * a - 0.6948 * b + 0.4203 * c};
          });
        },
        real);
    RowOptions drawn{.dtypes = numbers};
    drawn.inspect = [=](const Hosts& x, const Hosts& y) -> std::string {
      return y[0].shape != s || y[0].dtype != x[0].dtype ? "another shape or dtype" : "";
    };
    drawn.differentiate = false;
    rows.emplace_back(op::ImageRandomColorJitter{0.5, 0.25, 0.125, 0.1}, image, Reference(), drawn);
    rows.emplace_back(op::ImageRandomLighting{.alpha_std = 0.25}, image, Reference(), drawn);
  }
  rows.emplace_back(op::ImageRandomBrightness{2, 1}, std::vector{in({3, 3, 3})}, Reference(),
                    RowOptions{.refused = true});
}

// The element at the position that from(position) says.
template <class T, class From>
void moving_row(Rows& rows, const T& op, const Shape& from_shape, const Shape& to, From from, RowOptions options) {
  rows.emplace_back(
      op, std::vector{in(from_shape)},
      [=](const Hosts& x) {
        Host y = generate(to, [&](const Shape& p) { return x[0].at(from(p)); });
        y.dtype = x[0].dtype;
        return y;
      },
      options);
}

void geometry_rows(Rows& rows) {
  const RowOptions any{.dtypes = every_dtype}, number{.dtypes = numbers};
  for (const Shape& s : shapes) {
    const int h = s.ndim() - 3;
    const auto mirrored = [=](int axis) {
      return [=](const Shape& p) { return with(p, axis, s[axis] - 1 - p[axis]); };
    };
    moving_row(rows, op::ImageFlipLeftRight{}, s, s, mirrored(h + 1), any);
    moving_row(rows, op::ImageFlipTopBottom{}, s, s, mirrored(h), any);
    const auto either = [&](const auto& op, int axis) {
      RowOptions options = any;
      options.inspect = [=](const Hosts& x, const Hosts& y) -> std::string {
        const int64_t images = s.ndim() == 4 ? s[0] : 1, size = s.size() / std::max<int64_t>(1, images);
        const Host flipped = generate(s, [&](const Shape& p) { return x[0].at(mirrored(axis)(p)); });
        for (int64_t n = 0; n < images; ++n) {
          const auto same = [&](const Host& h) {
            return std::equal(h.values.begin() + n * size, h.values.begin() + (n + 1) * size,
                              y[0].values.begin() + n * size);
          };
          if (!same(x[0]) && !same(flipped)) return "neither the image nor its mirror image";
        }
        return "";
      };
      rows.emplace_back(op, std::vector{in(s)}, Reference(), options);
    };
    either(op::ImageRandomFlipLeftRight{}, h + 1), either(op::ImageRandomFlipTopBottom{}, h);
    Shape first;  // channels first
    if (h == 1) first.push_back(s[0]);
    for (int64_t d : {s.back(), s[h], s[h + 1]}) first.push_back(d);
    rows.emplace_back(
        op::ImageToTensor{}, std::vector{in(s)},
        [=](const Hosts& x) {
          Host y = generate(first, [&](const Shape& p) {
            Shape q;
            if (h == 1) q.push_back(p[0]);
            for (int64_t d : {p[h + 1], p[h + 2], p[h]}) q.push_back(d);
            return x[0].at(q) / 255;
          });
          y.dtype = DType::float32;
          return y;
        },
        number);
    for (const op::ImageNormalize& op :
         {op::ImageNormalize{.mean = {0.5f}, .std = {2.0f}},
          s.back() == 3 ? op::ImageNormalize{.mean = {0.5f, 0.25f, -1.0f}, .std = {2.0f, 0.5f, 0.25f}}
                        : op::ImageNormalize{}}) {
      rows.emplace_back(op, std::vector{in(first)}, [=](const Hosts& x) {
        return generate(first, [&](const Shape& p) {
          const auto of = [&](const FloatTuple& t) { return double(t[t.size() == 1 ? 0 : int(p[h])]); };
          return (x[0].at(p) - of(op.mean)) / of(op.std);
        });
      });
    }
    if (s.size() == 0) continue;
    Shape part = s;
    part[h] = 1, part[h + 1] = std::min<int64_t>(2, s[h + 1]);
    const int64_t y = s[h] - 1, x = s[h + 1] - part[h + 1];
    moving_row(
        rows, op::ImageCrop{.x = x, .y = y, .width = part[h + 1], .height = 1}, s, part,
        [=](const Shape& p) { return with(with(p, h, p[h] + y), h + 1, p[h + 1] + x); }, any);
  }
  moving_row(
      rows, op::ImageCrop{.x = 1, .y = 1, .width = 2, .height = 1}, {0, 3, 3, 3}, {0, 1, 2, 3},
      [](const Shape& p) { return p; }, any);
}

void resize_row(Rows& rows, const op::ImageResize& op, const Shape& s, int64_t height, int64_t width) {
  const int h = s.ndim() - 3;
  Shape to = s;
  to[h] = height, to[h + 1] = width;
  const auto reference = [=](const Hosts& x) {
    Host y = generate(to, [&](const Shape& p) {
      double sum = 0, low[2], rest[2];
      for (int axis : {0, 1}) {
        const int64_t size = s[h + axis];
        const double at = (double(p[h + axis]) + 0.5) * double(size) / double(to[h + axis]) - 0.5;
        const double inside = std::clamp(at, 0.0, double(size - 1));
        low[axis] = std::floor(inside), rest[axis] = inside - low[axis];
      }
      for (int k = 0; k < 4; ++k) {
        const double weight = (k / 2 ? rest[0] : 1 - rest[0]) * (k % 2 ? rest[1] : 1 - rest[1]);
        const int64_t row = std::min(s[h] - 1, int64_t(low[0]) + k / 2),
                      column = std::min(s[h + 1] - 1, int64_t(low[1]) + k % 2);
        if (weight != 0) sum += weight * x[0].at(with(with(p, h, row), h + 1, column));
      }
      return x[0].dtype == DType::uint8 ? std::floor(sum + 0.5) : sum;
    });
    y.dtype = x[0].dtype;
    return y;
  };
  rows.emplace_back(op, std::vector{in(s)}, reference,
                    RowOptions{.dtypes = floats | dtype_bit(DType::uint8), .loosen = 4});
}

double keys(double t) {
  constexpr double a = -0.75;
  t = std::abs(t);
  if (t >= 2) return 0;
  return t < 1 ? (a + 2) * t * t * t - (a + 3) * t * t + 1 : a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a;
}

double lanczos(double t) {
  const auto sinc = [](double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); };
  return std::abs(t) >= 4 ? 0 : sinc(t) * sinc(t / 4);
}

// The weights of an axis's pixels in result o: by the kernel at their distances, those at the edge repeated outside.
std::vector<double> kernel_weights(double (*kernel)(double), double in, double out, double o) {
  std::vector<double> weights(size_t(in), 0);
  const double at = (o + 0.5) * in / out - 0.5;
  double total = 0;
  for (double k = std::floor(at) - 5; k < at + 5; ++k) total += kernel(at - k);
  for (double k = std::floor(at) - 5; k < at + 5; ++k) {
    weights[size_t(std::clamp(k, 0.0, in - 1))] += kernel(at - k) / total;
  }
  return weights;
}

// By how much of the result's part of the axis each pixel covers; `narrow`: of two at most.
std::vector<double> covered_weights(double in, double out, double o, bool narrow) {
  std::vector<double> weights(size_t(in), 0);
  const double begin = o * in / out, end = begin + in / out;
  const double first = std::floor(begin + 1e-9);
  for (double i = first; i < end - 1e-9; ++i) {
    const double covered = std::min(i + 1, end) - std::max(i, begin);
    weights[size_t(narrow ? std::min(i, first + 1) : i)] += covered / (end - begin);
  }
  return weights;
}

std::vector<double> axis_weights(int interp, bool narrow, int64_t in, int64_t out, int64_t o) {
  const auto i = double(in), n = double(out), at = double(o);
  if (interp == 2) return kernel_weights(keys, i, n, at);
  if (interp == 4) return kernel_weights(lanczos, i, n, at);
  if (interp == 3) return covered_weights(i, n, at, narrow);
  std::vector<double> weights(size_t(in), 0);
  weights[size_t(std::floor(at * i / n + 1e-9))] = 1;
  return weights;
}

// Other interpolations than bilinear. `narrow`: an axis gets longer.
void interpolated_row(Rows& rows, const op::ImageResize& op, const Shape& s, bool narrow) {
  const int h = s.ndim() - 3;
  Shape to = s;
  to[h] = op.size.back(), to[h + 1] = op.size[0];
  const auto reference = [=](const Hosts& x) {
    Host y = generate(to, [&](const Shape& p) {
      const auto down = axis_weights(op.interp, narrow, s[h], to[h], p[h]);
      const auto across = axis_weights(op.interp, narrow, s[h + 1], to[h + 1], p[h + 1]);
      double sum = 0;
      for (int64_t row = 0; row < s[h]; ++row) {
        for (int64_t column = 0; column < s[h + 1]; ++column) {
          const double weight = down[size_t(row)] * across[size_t(column)];
          if (weight != 0) sum += weight * x[0].at(with(with(p, h, row), h + 1, column));
        }
      }
      // a half, which weights that are no binary fractions give only nearly, is rounded up
      if (x[0].dtype == DType::uint8) sum = std::clamp(std::floor(std::round(sum * 1024) / 1024 + 0.5), 0.0, 255.0);
      return sum;
    });
    y.dtype = x[0].dtype;
    return y;
  };
  rows.emplace_back(op, std::vector{in(s)}, reference,
                    RowOptions{.dtypes = floats | dtype_bit(DType::uint8), .loosen = 8});
}

void resize_rows_of_images(Rows& rows) {
  resize_row(rows, {.size = Shape(7, 4)}, {3, 5, 3}, 4, 7);
  resize_row(rows, {.size = Shape(2, 3)}, {5, 7, 1}, 3, 2);
  resize_row(rows, {.size = Shape(1)}, {4, 7, 3}, 1, 1);
  resize_row(rows, {.size = Shape(4)}, {2, 3, 5, 3}, 4, 4);
  resize_row(rows, {.size = Shape(4), .keep_ratio = true}, {3, 5, 3}, 4, 6);
  resize_row(rows, {.size = Shape(4), .keep_ratio = true}, {5, 2, 3}, 10, 4);
  resize_row(rows, {.size = Shape(5, 2), .keep_ratio = true}, {1, 3, 3}, 2, 5);
  resize_row(rows, {.size = Shape(5, 2)}, {1, 3, 3, 1}, 2, 5);
  resize_row(rows, {.size = Shape(5, 2)}, {0, 3, 3, 3}, 2, 5);
  for (const int interp : {0, 2, 3, 4}) {
    interpolated_row(rows, {.size = Shape(7, 5), .interp = interp}, {3, 4, 3}, true);
    interpolated_row(rows, {.size = Shape(2, 3), .interp = interp}, {2, 5, 7, 1}, false);
    interpolated_row(rows, {.size = Shape(1, 1), .interp = interp}, {4, 3, 3}, false);
    interpolated_row(rows, {.size = Shape(2, 7), .interp = interp}, {3, 9, 3}, true);
    interpolated_row(rows, {.size = Shape(3, 5), .interp = interp}, {0, 5, 3, 3}, false);
  }
  rows.emplace_back(op::ImageResize{.size = Shape(2), .interp = 5}, std::vector{in({3, 3, 3})}, Reference(),
                    RowOptions{.refused = true});
}

}  // namespace

Rows image_rows() {
  Rows rows;
  color_rows(rows);
  geometry_rows(rows);
  resize_rows_of_images(rows);
  return rows;
}

}  // namespace kaon::test

// Fourier transforms as products with matrices, windows, and the mel scale.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The transform of rows (..., n, 1 or 2), real and imaginary parts last, to (..., bins, 2).
Symbol transform(const Symbol& x, int64_t bins, bool inverse, bool to_real = false) {
  const Shape s = shape_of(x);
  const int rank = s.ndim();
  const int64_t n = s[rank - 2], rows = s.product(0, rank - 2);
  std::vector<double> cosines, sines;
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t k = 0; k < bins; ++k) {
      const double angle = 2 * std::numbers::pi * double(t * k % n) / double(n);
      cosines.push_back(std::cos(angle) / (inverse ? double(n) : 1));
      sines.push_back(std::sin(angle) / (inverse ? double(n) : 1) * (inverse ? 1 : -1));
    }
  }
  const DType dtype = dtype_of(x);
  const Symbol re_matrix = constant(cosines, Shape(n, bins), dtype), im_matrix = constant(sines, Shape(n, bins), dtype);
  const auto part = [&](int i) { return reshaped(slice_along(x, rank - 1, i, i + 1), Shape(rows, n)); };
  const Symbol a = part(0);
  Symbol re = sym.dot(a, re_matrix), im = sym.dot(a, im_matrix);
  if (s.back() == 2) {
    const Symbol b = part(1);
    re = re - sym.dot(b, im_matrix);
    im = im + sym.dot(b, re_matrix);
  }
  Shape result;
  for (int i = 0; i + 2 < rank; ++i) result.push_back(s[i]);
  result.push_back(bins);
  if (to_real) {
    result.push_back(1);
    return reshaped(re, result);
  }
  result.push_back(2);
  return reshaped(sym.stack({.axis = 2}, re, im), result);
}

void dft(Call& c) {
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  int64_t at = c.opset() >= 20 ? (c.has(2) ? int64_t(c.number(2)) : -2) : c.integer("axis", 1);
  const int axis = c.axis(at, c.rank());
  if (axis == c.rank() - 1) c.fail("the last axis holds real and imaginary parts");
  std::vector<int64_t> axes(size_t(c.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[size_t(axis)], axes[size_t(c.rank() - 2)]);
  Symbol x = transposed(c.x(), axes);
  const int64_t given = c.shape()[axis], last = c.shape().back();
  // a one-sided spectrum has the other half as its conjugate
  if (inverse && onesided) {
    const int64_t n = c.has(1) ? int64_t(c.number(1)) : 2 * (given - 1);
    const int line = c.rank() - 2;
    const int64_t used = std::min(given, n / 2 + 1), mirrored = n - used;
    x = slice_along(x, line, 0, used);
    if (mirrored > 0) {
      Symbol rest = sym.reverse(slice_along(x, line, 1, 1 + mirrored), Shape(line));
      std::vector<double> signs{1, -1};
      signs.resize(size_t(last));
      rest =
          sym.broadcast_mul(rest, constant(signs, with_dim(Shape::filled(c.rank(), 1), c.rank() - 1, last), c.dtype()));
      x = concatenated({x, rest}, line);
    }
    return c.set(transposed(transform(x, n, true, true), axes));
  }
  const int64_t n = c.has(1) ? int64_t(c.number(1)) : given;
  if (n < 1) c.fail(fmt::format("dft_length is {}", n));
  if (n < given) x = slice_along(x, c.rank() - 2, 0, n);
  if (n > given) {
    std::vector<int64_t> before(size_t(c.rank())), after = before;
    after[size_t(c.rank() - 2)] = n - given;
    x = padded(x, before, after);
  }
  c.set(transposed(transform(x, onesided ? n / 2 + 1 : n, inverse), axes));
}

// signal (batch, length, 1 or 2), frame_step, window, frame_length
void stft(Call& c) {
  const int64_t step = int64_t(c.number(1));
  const int64_t length = c.has(3) ? int64_t(c.number(3)) : c.has(2) ? c.shape(2)[0] : 0;
  const Shape& s = c.shape();
  const bool onesided = c.integer("onesided", 1) != 0;
  if (step < 1 || length < 1 || length > s[1]) c.fail(fmt::format("frames of {} every {} of {}", length, step, s[1]));
  const int64_t frames = (s[1] - length) / step + 1, parts = s.ndim() == 3 ? s[2] : 1;
  std::vector<int64_t> at;
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t t = 0; t < length; ++t) at.push_back(f * step + t);
  }
  Symbol x = sym.take(reshaped(c.x(), Shape(s[0], s[1], parts)), constant(at), {.axis = 1});
  x = reshaped(x, Shape(s[0], frames, length, parts));
  if (c.has(2)) {
    Symbol window = c.x(2);
    const int64_t own = c.shape(2)[0];
    if (own < length) window = padded(window, {(length - own) / 2}, {length - own - (length - own) / 2});
    x = sym.broadcast_mul(x, reshaped(window, Shape(1, 1, length, 1)));
  }
  c.set(transform(x, onesided ? length / 2 + 1 : length, false));
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
void window(Call& c, double a0, double a1, double a2) {
  const int64_t size = int64_t(c.number(0));
  const auto dtype = format::dtype_of(ElementType(c.integer("output_datatype", 1)));
  if (!dtype || size < 0) c.fail_supported("the window");
  const double n = double(c.integer("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * double(i) / n;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  c.set(Value::constant(NDArray::from(values.data(), values.size(), Shape(size), *dtype)));
}

void mel_weight_matrix(Call& c) {
  const int64_t mels = int64_t(c.number(0)), length = int64_t(c.number(1)), rate = int64_t(c.number(2));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(c.number(3)), step = (mel(c.number(4)) - low) / double(mels + 2);
  const int64_t bins = length / 2 + 1;
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (double(i) * step + low) / 2595) - 1);
    edges.push_back(int64_t(std::floor(double(length + 1) * hertz / double(rate))));
  }
  std::vector<double> values(size_t(bins * mels));
  for (int64_t i = 0; i < mels; ++i) {
    const int64_t begin = edges[size_t(i)], middle = edges[size_t(i) + 1], end = edges[size_t(i) + 2];
    const auto at = [&](int64_t bin) -> double* {
      return bin >= 0 && bin < bins ? &values[size_t(bin * mels + i)] : nullptr;
    };
    if (middle == begin) {
      if (double* v = at(middle)) *v = 1;
    } else {
      for (int64_t j = begin; j <= middle; ++j) {
        if (double* v = at(j)) *v = double(j - begin) / double(middle - begin);
      }
    }
    for (int64_t j = middle; end > middle && j < end; ++j) {
      if (double* v = at(j)) *v = double(end - j) / double(end - middle);
    }
  }
  const auto dtype = format::dtype_of(ElementType(c.integer("output_datatype", 1)));
  if (!dtype) c.fail_supported("output_datatype");
  c.set(Value::constant(NDArray::from(values.data(), values.size(), Shape(bins, mels), *dtype)));
}

constexpr Row signal_table[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"HannWindow", [](Call& c) { window(c, 0.5, 0.5, 0); }},
    {"HammingWindow", [](Call& c) { window(c, 25.0 / 46, 1 - 25.0 / 46, 0); }},
    {"BlackmanWindow", [](Call& c) { window(c, 0.42, 0.5, 0.08); }},
    {"MelWeightMatrix", mel_weight_matrix},
};

}  // namespace

std::span<const Row> signal_rows() { return signal_table; }

}  // namespace kaon::onnx::convert

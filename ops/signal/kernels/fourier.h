// Fourier transforms as steps that the CPU and GPUs share: a number of a step depends on two of the step before.
#pragma once

#include <cmath>
#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

template <class T>
struct Complex {
  T re, im;
  KAON_HOST_DEVICE friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  KAON_HOST_DEVICE friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  KAON_HOST_DEVICE friend Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// exp(-2 pi i k / n) for 0 <= k < n, from an angle of at most pi / 4, where sine and cosine are most exact.
template <class T>
KAON_HOST_DEVICE inline Complex<T> root_of_unity(int64_t k, int64_t n) {
  const int64_t eighth = 8 * k / n;  // of the circle
  const int64_t quarter = (eighth + 1) / 2 % 4;
  const double angle = 6.283185307179586476925 * double(4 * k - n * ((eighth + 1) / 2)) / (4 * double(n));
  const double c = ::cos(angle), s = ::sin(angle);
  switch (quarter) {
    case 0: return {T(c), T(-s)};
    case 1: return {T(-s), T(-c)};
    case 2: return {T(-c), T(s)};
    default: return {T(s), T(c)};
  }
}

// The sizes of a transform of rows of n numbers. A power of two is transformed as it is (Stockham: no reordering);
// another length by way of a convolution (Bluestein), which is two transforms of a power of two, `padded`.
struct FourierSizes {
  int64_t n, padded;
  explicit FourierSizes(int64_t length) : n(length), padded(1) {
    while (padded < n) padded *= 2;
    if (padded != n) padded *= 2;
  }
  bool is_direct() const { return padded == n; }
};

// One step of a transform of `size` numbers, a power of two, from x to y: pair i of size / 2. `stride` is the number of
// transforms, of size / stride numbers, that lie interleaved in x; roots are those of `size`.
template <class T>
KAON_HOST_DEVICE inline void fourier_pair(int64_t i, int64_t size, int64_t stride, const Complex<T>* roots,
                                          const Complex<T>* x, Complex<T>* y) {
  const int64_t q = i & (stride - 1), p = i - q;  // p: a multiple of stride
  const Complex<T> a = x[i], b = x[i + size / 2];
  y[q + 2 * p] = a + b;
  y[q + 2 * p + stride] = (a - b) * roots[p];
}

// Bluestein's factor w(k) = exp(-pi i k^2 / n).
template <class T>
KAON_HOST_DEVICE inline Complex<T> chirp(int64_t k, int64_t n) {
  return root_of_unity<T>(int64_t(uint64_t(k) * uint64_t(k) % uint64_t(2 * n)), 2 * n);
}
// Number k of the sequence with which numbers times w are convolved, over `padded`.
template <class T>
KAON_HOST_DEVICE inline Complex<T> chirp_filter(int64_t k, int64_t n, int64_t padded) {
  const int64_t away = k < n ? k : padded - k;
  if (away >= n) return {T(0), T(0)};
  const Complex<T> w = chirp<T>(away, n);
  return {w.re / T(padded), -w.im / T(padded)};
}

}  // namespace kaon::ops

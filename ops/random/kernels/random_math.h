// From random words to uniform and normal numbers, for CPU and CUDA kernels. A light header.
#pragma once

#include <math.h>
#include <string.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "kaon/ops/attributes.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/philox.h"

namespace kaon::ops {

// A uniform number in [0, 1) from the upper 24 bits of a word; for 16-bit floats in (0, 1]: they are rounded later,
// when numbers that would round to the upper end become the largest below it, and 0 must not become more frequent by
// rounding.
template <class T>
inline constexpr int uniform_offset = sizeof(T) == 2 ? 1 : 0;
template <class T>
KAON_HOST_DEVICE float uniform_float(uint32_t word) {
  return float(int32_t(word >> 8) + uniform_offset<T>) * 0x1p-24f;
}

// The largest T below x, which is finite.
template <class T>
KAON_HOST_DEVICE T below(T x) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(T) - 1));
  Bits bits;
  memcpy(&bits, &x, sizeof(T));
  bits = Bits(bits << 1) == 0 ? Bits(sign | 1) : (bits & sign) != 0 ? Bits(bits + 1) : Bits(bits - 1);
  memcpy(&x, &bits, sizeof(T));
  return x;
}

// The largest T in [low, high); low where there is none.
template <class T>
KAON_HOST_DEVICE accumulate_t<T> uniform_limit(double low, double high) {
  using A = accumulate_t<T>;
  T last = T(A(high));
  while (low < high && double(A(last)) >= high) last = below(last);
  if (double(A(last)) < low) last = T(A(low));
  return A(last);
}

// Host code, when a normal draw runs.
inline void expect_scale(double scale) {
  if (!(scale >= 0)) throw ValueError("[_random_normal] scale must not be negative, got " + to_text(scale));
}

// Two normal numbers r cos(2 pi u) and r sin(2 pi u) with r = sqrt(-2 log v); v from the first word (31 bits, so that
// the tail reaches 6.6) and u from the second.
KAON_HOST_DEVICE inline void normal_pair(uint32_t first, uint32_t second, float& a, float& b) {
  const float v = ::fmaf(float(int32_t(first >> 1)), 0x1p-31f, 0x1p-32f);
  const float angle = float(int32_t(second >> 8)) * (6.28318530717958647692f * 0x1p-24f);
  const float r = ::sqrtf(-2.0f * ::fminf(::logf(v), 0.0f));
  a = r * ::cosf(angle);
  b = r * ::sinf(angle);
}

// The same with two words for each of u and v.
KAON_HOST_DEVICE inline void normal_pair(const uint32_t* words, double& a, double& b) {
  constexpr double two_pi = 6.28318530717958647692;
  const double v = uniform_double(words[0], words[1]) + 0x1p-54, angle = two_pi * uniform_double(words[2], words[3]);
  const double r = ::sqrt(-2 * ::log(v));
  a = r * ::cos(angle);
  b = r * ::sin(angle);
}

// An exponential number of mean 1, -log(v) for v in (0, 1) of 31 bits; near v = 1, which a float cannot tell from 1, by
// way of 1 - v. It is never 0.
KAON_HOST_DEVICE inline float exponential_number(uint32_t word) {
  const float v = ::fmaf(float(int32_t(word >> 1)), 0x1p-31f, 0x1p-32f);
  const float rest = ::fmaf(float(int32_t(0x7fffffff - (word >> 1))), 0x1p-31f, 0x1p-32f);
  const float lost = v > 0.5f ? (rest - (1 - v)) / v : 0.0f;
  return lost - ::logf(v);
}
// The same of two words.
KAON_HOST_DEVICE inline double exponential_number(uint32_t high, uint32_t low) {
  return ::fmax(-::log(uniform_double(high, low) + 0x1p-54), 0x1p-54);
}

// An element is dropped, with probability p, if its word is below this; kept elements are multiplied by 1 / (1 - p).
inline uint32_t dropout_threshold(double p) { return p < 1 ? uint32_t(p * 0x1p32) : 0xffffffffu; }
template <class A>
A dropout_factor(double p) {
  return p < 1 ? A(1 / (1 - p)) : A(0);
}

}  // namespace kaon::ops

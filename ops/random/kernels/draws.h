// Draws whose parameters are numbers or arrays, for CPU and CUDA kernels. A light header.
#pragma once

#include <math.h>

#include "kaon/ops/math/convert.h"
#include "kaon/ops/random/kernels/random_math.h"
#include "kaon/ops/random/kernels/rejection.h"
#include "kaon/ops/random/random.h"

namespace kaon::ops {

// A parameter: elements of an array of any dtype but bool, or one number.
struct DrawParameter {
  const void* data = nullptr;
  DType dtype = DType::float64;
  double number = 0;

  template <class T>
  KAON_HOST_DEVICE double element(int64_t i) const {
    return convert<double>(static_cast<const T*>(data)[i]);
  }
  KAON_HOST_DEVICE double operator[](int64_t i) const {
    if (!data) return number;
    switch (dtype) {
      case DType::float32: return element<float>(i);
      case DType::float64: return element<double>(i);
      case DType::float16: return element<float16>(i);
      case DType::bfloat16: return element<bfloat16>(i);
      case DType::uint8: return element<uint8_t>(i);
      case DType::int8: return element<int8_t>(i);
      case DType::uint16: return element<uint16_t>(i);
      case DType::int16: return element<int16_t>(i);
      case DType::uint32: return element<uint32_t>(i);
      case DType::int32: return element<int32_t>(i);
      case DType::uint64: return element<uint64_t>(i);
      default: return element<int64_t>(i);
    }
  }
};

// An output of any floating dtype; none where data is null.
struct DrawnNumbers {
  void* data;
  DType dtype;

  explicit DrawnNumbers(const TensorView& out) : data(out.data), dtype(out.dtype) {}
  template <class T>
  KAON_HOST_DEVICE void store(int64_t i, double v) const {
    static_cast<T*>(data)[i] = convert<T>(v);
  }
  KAON_HOST_DEVICE void set(int64_t i, double v) const {
    if (!data) return;
    switch (dtype) {
      case DType::float32: return store<float>(i, v);
      case DType::float64: return store<double>(i, v);
      case DType::float16: return store<float16>(i, v);
      default: return store<bfloat16>(i, v);
    }
  }
};

// Element i of the result is drawn with elements i / repeats of the parameters.
struct Draws {
  Distribution distribution;
  DrawParameter first, second;
  int64_t repeats;
};

KAON_HOST_DEVICE inline bool is_valid(Distribution d, double a, double b) {
  switch (d) {
    case Distribution::uniform: return a <= b;
    case Distribution::normal: return a == a && b >= 0;
    case Distribution::gamma: return a >= 0 && b >= 0;  // all numbers are 0 where one of them is
    case Distribution::exponential: return a > 0;
    case Distribution::negative_binomial: return a >= 0 && b > 0 && b <= 1;
    case Distribution::generalized_negative_binomial: return a >= 0 && b >= 0;
    default: return a >= 0;
  }
}

// Distributions that are offset + factor * noise, with one standard number for each element; the others reject.
constexpr bool is_scaled_noise(Distribution d) {
  return d == Distribution::uniform || d == Distribution::normal || d == Distribution::exponential;
}

template <class T>
struct ScaledNoise {
  using A = accumulate_t<T>;
  A offset = 0, factor = 1, most = std::numeric_limits<A>::infinity();

  KAON_HOST_DEVICE ScaledNoise(Distribution d, double a, double b) {
    if (!is_valid(d, a, b)) {
      offset = std::numeric_limits<A>::quiet_NaN();
    } else if (d == Distribution::exponential) {
      factor = A(1 / a);
    } else {
      offset = A(a);
      factor = A(d == Distribution::uniform ? b - a : b);
      if (d == Distribution::uniform) most = uniform_limit<T>(a, b);
    }
  }
  KAON_HOST_DEVICE A operator()(A noise) const {
    const A y = offset + factor * noise;
    return y > most ? most : y;
  }
};

struct ScaledGammaNumber {
  GammaNumber gamma;
  double scale;
  KAON_HOST_DEVICE ScaledGammaNumber(double alpha, double beta) : gamma(alpha), scale(beta) {}
  KAON_HOST_DEVICE double operator()(WordStream& words) const { return gamma(words) * scale; }
};

struct NoNumber {
  KAON_HOST_DEVICE double operator()(WordStream&) const { return std::numeric_limits<double>::quiet_NaN(); }
};

// Calls use(number) with what draws the numbers of a distribution that rejects: number(words).
template <class Use>
KAON_HOST_DEVICE void with_rejecting_number(Distribution d, double a, double b, const Use& use) {
  if (!is_valid(d, a, b)) return use(NoNumber());
  switch (d) {
    case Distribution::gamma: return use(ScaledGammaNumber(a, b));
    case Distribution::poisson: return use(PoissonNumber(a));
    case Distribution::negative_binomial: return use(NegativeBinomialNumber(a, b));
    default: return use(DispersedNumber(a, b));
  }
}

}  // namespace kaon::ops

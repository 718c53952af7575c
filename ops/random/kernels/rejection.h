// Numbers that take as many random words as they need: gamma, Poisson and what is made of them. For CPU and CUDA
// kernels, in double. A light header.
#pragma once

#include <math.h>

#include <limits>

#include "kaon/ops/math/philox.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The random words of one element, a block after the other: its own, so that no element depends on what another takes.
// Blocks index, index + 2^40, index + 2^41, ... of the draw, which no other element and no other draw has.
class WordStream {
 public:
  // `first` is block `index`, which a kernel may have computed for many elements at a time.
  KAON_HOST_DEVICE WordStream(RandomKey key, uint64_t index, const Philox4& first)
      : key_(key), index_(index), first_(first) {}
  KAON_HOST_DEVICE Philox4 next() {
    const uint64_t turn = turn_++;
    return turn == 0 ? first_ : random_block(key_.seed, key_.offset, index_ | turn << 40);
  }

 private:
  RandomKey key_;
  uint64_t index_, turn_ = 0;
  Philox4 first_;
};

// Uniform in (0, 1), of one word.
KAON_HOST_DEVICE inline double open_uniform(uint32_t word) { return (double(word) + 0.5) * 0x1p-32; }

// Gamma with scale 1: d (1 + c z)^3 with d = alpha - 1/3, c = 1 / sqrt(9 d) and a normal z is taken or drawn anew
// (Marsaglia, Tsang: "A simple method for generating gamma variables", 2000). Below alpha = 1 it is a number for
// alpha + 1 times u^(1 / alpha), and 0 for alpha = 0. NaN unless alpha >= 0.
class GammaNumber {
 public:
  KAON_HOST_DEVICE explicit GammaNumber(double alpha)
      : alpha_(alpha), d_((alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3), c_(1 / ::sqrt(9 * d_)) {}

  KAON_HOST_DEVICE double operator()(WordStream& words) const {
    if (!(alpha_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (alpha_ == 0) return 0;
    if (alpha_ >= 1) return above_one(words);
    const double shrink = ::log(open_uniform(words.next().v[0])) / alpha_;
    return above_one(words) * ::exp(shrink);
  }

 private:
  KAON_HOST_DEVICE double above_one(WordStream& words) const {
    for (;;) {
      const Philox4 w = words.next();
      const double r = ::sqrt(-2 * ::log(uniform_double(w.v[0], w.v[1]) + 0x1p-54));
      const double z = r * ::cos(6.28318530717958647692 * 0x1p-32 * double(w.v[2])), root = 1 + c_ * z;
      if (root <= 0) continue;
      const double v = root * root * root, u = open_uniform(w.v[3]), z2 = z * z;
      if (u < 1 - 0.0331 * z2 * z2 || ::log(u) < 0.5 * z2 + d_ * (1 - v + ::log(v))) return d_ * v;
    }
  }

  double alpha_, d_, c_;
};

// log(n!) - log(sqrt(2 pi n) (n / e)^n) for n >= 1, an integer.
KAON_HOST_DEVICE inline double stirling_error(double n) {
  if (n >= 10) {
    const double x = 1 / (n * n);
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - x / 1680) * x) * x) / n;
  }
  double factorial = 1;
  for (double i = 2; i <= n; ++i) factorial *= i;
  return ::log(factorial) - (n + 0.5) * ::log(n) + n - 0.91893853320467274178;
}

// Poisson: from a mean of 10 on by transformed rejection (Hörmann: "The transformed rejection method for generating
// Poisson random variables", 1993), below by inversion. NaN unless mean >= 0; an infinite mean gives infinity.
class PoissonNumber {
 public:
  KAON_HOST_DEVICE explicit PoissonNumber(double mean) : mean_(mean) {
    if (!(mean >= inverted_below)) {
      zero_ = ::exp(-mean);
      return;
    }
    b_ = 0.931 + 2.53 * ::sqrt(mean);
    a_ = -0.059 + 0.02483 * b_;
    inverse_alpha_ = 1.1239 + 1.1328 / (b_ - 3.4);
    most_ = 0.9277 - 3.6224 / (b_ - 2);
  }

  KAON_HOST_DEVICE double operator()(WordStream& words) const {
    if (!(mean_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (mean_ < inverted_below) return inverted(words);
    return mean_ <= std::numeric_limits<double>::max() ? rejected(words) : mean_;
  }

 private:
  static constexpr double inverted_below = 10;

  KAON_HOST_DEVICE double inverted(WordStream& words) const {
    const Philox4 w = words.next();
    double u = uniform_double(w.v[0], w.v[1]), p = zero_, k = 0;
    while (u >= p && p > 1e-18) {  // what is left beyond is less than a double can tell
      u -= p;
      p *= mean_ / ++k;
    }
    return k;
  }

  KAON_HOST_DEVICE double rejected(WordStream& words) const {
    for (;;) {
      const Philox4 w = words.next();
      const double u = uniform_double(w.v[0], w.v[1]) - 0.5, v = uniform_double(w.v[2], w.v[3]) + 0x1p-54;
      const double side = 0.5 - ::fabs(u), k = ::floor((2 * a_ / side + b_) * u + mean_ + 0.43);
      if (side >= 0.07 && v <= most_) return k;
      if (!(k >= 0) || (side < 0.013 && v > side)) continue;
      if (::log(v * inverse_alpha_ / (a_ / (side * side) + b_)) <= log_probability(k)) return k;
    }
  }

  // k log(mean) - mean - log(k!), in terms that do not cancel.
  KAON_HOST_DEVICE double log_probability(double k) const {
    if (k == 0) return -mean_;
    const double far = (k - mean_) / mean_;
    return -mean_ * ((1 + far) * ::log1p(far) - far) - stirling_error(k) - 0.5 * ::log(6.28318530717958647692 * k);
  }

  double mean_, zero_ = 0, a_ = 0, b_ = 0, inverse_alpha_ = 0, most_ = 0;
};

// Failures before success k, each trial of probability p: Poisson with a mean that is gamma(k) (1 - p) / p.
class NegativeBinomialNumber {
 public:
  KAON_HOST_DEVICE NegativeBinomialNumber(double k, double p) : none_(k == 0), gamma_(k), scale_((1 - p) / p) {}
  KAON_HOST_DEVICE double operator()(WordStream& words) const {
    return none_ ? 0 : PoissonNumber(gamma_(words) * scale_)(words);
  }

 private:
  bool none_;
  GammaNumber gamma_;
  double scale_;
};

// The same by its mean and by its dispersion alpha, the inverse of k.
class DispersedNumber {
 public:
  KAON_HOST_DEVICE DispersedNumber(double mean, double alpha)
      : mean_(mean), alpha_(alpha), gamma_(alpha > 0 ? 1 / alpha : 1) {}
  KAON_HOST_DEVICE double operator()(WordStream& words) const {
    const double gamma = gamma_(words);
    return PoissonNumber(alpha_ > 1e-300 ? gamma * alpha_ * mean_ : mean_)(words);
  }

 private:
  double mean_, alpha_;
  GammaNumber gamma_;
};

}  // namespace kaon::ops

// The elementwise functions on single values: float64 and integers on the CPU, everything on CUDA.
// A light header. The float32 vector forms are in math.h and agree with these to the bounds given there.
#pragma once

#include <math.h>

#include <limits>
#include <type_traits>

#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/host_device.h"

namespace kaon::ops {

// The unsigned type that integer arithmetic wraps in; at least 32 bits, so that no promotion overflows.
template <class T>
using wrap_t = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// The digamma function: reflection below 0, recurrence up to 10, then the asymptotic series (Abramowitz
// and Stegun 6.3.7, 6.3.5, 6.3.18). Infinite at its poles, as MXNet has it, where there is no limit.
KAON_HOST_DEVICE inline double digamma_value(double x) {
  constexpr double pi = 3.14159265358979323846;
  if (x == 0.0 || (x < 0.0 && x == ::floor(x))) return std::numeric_limits<double>::infinity();
  double r = 0.0;
  if (x < 0.0) {
    r = -pi / ::tan(pi * x);
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) r -= 1.0 / x;
  const double q = 1.0 / (x * x);
  const double series =
      q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q * (1.0 / 132 - q * (691.0 / 32760))))));
  return r + ::log(x) - 0.5 / x - series;
}

KAON_HOST_DEVICE inline double log_gamma_value(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign = 0;  // lgamma itself writes a global
  return ::lgamma_r(x, &sign);
#endif
}

// The inverse of erf: an estimate (Winitzki 2008), then steps of Halley's method for erf(y) = x; near the ends for
// erfc(y) = 1 - x, which is exact there.
KAON_HOST_DEVICE inline double erfinv_value(double x) {
  const double a = ::fabs(x);
  if (!(a < 1.0)) {
    return a == 1.0 ? x * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double slope_at_0 = 1.1283791670955126, curve = 0.147, pi = 3.14159265358979323846;
  if (a < 1e-9) return x / slope_at_0;
  const double log_term = ::log1p(-a * a) / curve, middle = 2.0 / (pi * curve) + 0.5 * curve * log_term;
  double y = ::sqrt(-log_term / (::sqrt(middle * middle - log_term) + middle));
  for (int i = 0; i < 3; ++i) {
    const double error = a < 0.5 ? ::erf(y) - a : (1.0 - a) - ::erfc(y);
    const double step = error / (slope_at_0 * ::exp(-y * y));
    y -= step / (1.0 + y * step);
  }
  return ::copysign(y, x);
}

// MXNet's rint: to the nearest integer, halves downwards.
template <class T>
KAON_HOST_DEVICE T round_half_down(T x) {
  const T below = ::floor(x);
  return x - below <= T(0.5) ? below : ::ceil(x);
}

// K(x). T is float or double, or an integer type where the kind's domain has integers.
template <UnaryKind K, class T>
KAON_HOST_DEVICE T unary_value(T x) {
  using U = UnaryKind;
  constexpr bool real = std::is_floating_point_v<T>;
  if constexpr (K == U::identity || K == U::stop_gradient) return x;
  else if constexpr (K == U::zeros_like) return T(0);
  else if constexpr (K == U::ones_like) return T(1);
  else if constexpr (K == U::logical_not) return T(x == T(0));
  else if constexpr (K == U::relu) return x <= T(0) ? T(0) : x;
  else if constexpr (K == U::square && real) return x * x;
  else if constexpr (K == U::square) return T(wrap_t<T>(x) * wrap_t<T>(x));
  else if constexpr (K == U::abs && real) return ::fabs(x);
  else if constexpr (K == U::abs) return x < T(0) ? T(wrap_t<T>(0) - wrap_t<T>(x)) : x;
  else if constexpr (K == U::sign) return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
  else if constexpr (K == U::negative && real) return -x;
  else if constexpr (K == U::negative) return T(wrap_t<T>(0) - wrap_t<T>(x));
  else if constexpr (!real) return x;  // floor and its kin
  else if constexpr (K == U::floor) return ::floor(x);
  else if constexpr (K == U::ceil) return ::ceil(x);
  else if constexpr (K == U::round) return ::round(x);
  else if constexpr (K == U::rint) return round_half_down(x);
  else if constexpr (K == U::trunc || K == U::fix) return ::trunc(x);
  else if constexpr (K == U::sigmoid) {
    const T e = ::exp(-::fabs(x)), r = T(1) / (T(1) + e);
    return x < T(0) ? e * r : r;
  } else if constexpr (K == U::tanh) return ::tanh(x);
  else if constexpr (K == U::exp) return ::exp(x);
  else if constexpr (K == U::log) return ::log(x);
  else if constexpr (K == U::sqrt) return ::sqrt(x);
  else if constexpr (K == U::rsqrt) return T(1) / ::sqrt(x);
  else if constexpr (K == U::reciprocal) return T(1) / x;
  else if constexpr (K == U::erf) return ::erf(x);
  else if constexpr (K == U::log1p) return ::log1p(x);
  else if constexpr (K == U::expm1) return ::expm1(x);
  else if constexpr (K == U::log2) return ::log2(x);
  else if constexpr (K == U::log10) return ::log10(x);
  else if constexpr (K == U::sin) return ::sin(x);
  else if constexpr (K == U::cos) return ::cos(x);
  else if constexpr (K == U::tan) return ::tan(x);
  else if constexpr (K == U::arcsin) return ::asin(x);
  else if constexpr (K == U::arccos) return ::acos(x);
  else if constexpr (K == U::arctan) return ::atan(x);
  else if constexpr (K == U::sinh) return ::sinh(x);
  else if constexpr (K == U::cosh) return ::cosh(x);
  else if constexpr (K == U::arcsinh) return ::asinh(x);
  else if constexpr (K == U::arccosh) return ::acosh(x);
  else if constexpr (K == U::arctanh) return ::atanh(x);
  else if constexpr (K == U::cbrt) return ::cbrt(x);
  else if constexpr (K == U::rcbrt) return T(1) / ::cbrt(x);
  else if constexpr (K == U::softsign) return ::isinf(x) ? ::copysign(T(1), x) : x / (T(1) + ::fabs(x));
  else if constexpr (K == U::softrelu) return (x <= T(0) ? T(0) : x) + ::log1p(::exp(-::fabs(x)));
  else if constexpr (K == U::gelu) {
    return x == -std::numeric_limits<T>::infinity() ? T(-0.0) : x * T(0.5) * ::erfc(x * T(-0.70710678118654752));
  } else if constexpr (K == U::degrees) return x * T(57.29577951308232);
  else if constexpr (K == U::radians) return x * T(0.017453292519943295);
  else if constexpr (K == U::gamma) return T(::tgamma(double(x)));
  else if constexpr (K == U::gammaln) return T(log_gamma_value(double(x)));
  else if constexpr (K == U::digamma) return T(digamma_value(double(x)));
  else if constexpr (K == U::erfinv) return T(erfinv_value(double(x)));
}

// d gelu / dx = Phi(x) + x phi(x).
template <class T>
KAON_HOST_DEVICE T gelu_slope_value(T x) {
  const T density = ::fabs(x) > T(40) ? T(0) : x * T(0.3989422804014327) * ::exp(T(-0.5) * x * x);  // not inf * 0
  return T(0.5) * ::erfc(x * T(-0.70710678118654752)) + density;
}

// The head times the derivative, from the output of the function (gelu: its input).
template <UnaryBackwardKind K, class T>
KAON_HOST_DEVICE T unary_backward_value(T head, T saved) {
  if constexpr (K == UnaryBackwardKind::relu) return saved > T(0) ? head : saved != saved ? saved : T(0);
  else if constexpr (K == UnaryBackwardKind::sigmoid) return head * saved * (T(1) - saved);
  else if constexpr (K == UnaryBackwardKind::tanh) return head * (T(1) - saved * saved);
  else return head * gelu_slope_value(saved);
}

// Python's remainder: the sign of the divisor. 0 when the divisor is 0, as in MXNet.
template <class T>
KAON_HOST_DEVICE T mod_value(T a, T b) {
  if (b == T(0)) return T(0);
  if constexpr (std::is_floating_point_v<T>) {
    T r = ::fmod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
  } else {
    if (std::is_signed_v<T> && b == T(-1)) return T(0);  // the smallest number over -1 would trap
    T r = T(a % b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
  }
}

// Integer powers wrap; a negative exponent gives 0 except for the bases 1 and -1.
template <class T>
KAON_HOST_DEVICE T integer_power(T base, T exponent) {
  if (exponent < T(0)) return base == T(1) ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  wrap_t<T> r = 1, b = wrap_t<T>(base);
  for (wrap_t<T> e = wrap_t<T>(exponent); e; e >>= 1, b *= b) {
    if (e & 1) r *= b;
  }
  return T(r);
}

// log(e^a + e^b) without overflow. The difference of equal infinities is 0.
template <class T>
KAON_HOST_DEVICE T logaddexp_value(T a, T b) {
  const T gap = a == b ? T(0) : ::fabs(a - b);
  return (a > b ? a : b) + ::log1p(::exp(-gap));
}

// From a number to T: integers wrap around, reals round.
template <class T>
KAON_HOST_DEVICE T from_number(double v) {
  if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, bool>) {
    return T(v);
  } else {
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (v >= 9223372036854775808.0) return v < 18446744073709551616.0 ? T(v) : std::numeric_limits<T>::max();
    }
    return v >= 9223372036854775807.0    ? T(std::numeric_limits<int64_t>::max())
           : v <= -9223372036854775808.0 ? T(std::numeric_limits<int64_t>::min())
           : v == v                      ? T(int64_t(v))
                                         : T(0);
  }
}

// K(a, b). Integer division truncates, and gives 0 for a divisor of 0.
template <BinaryKind K, class T>
KAON_HOST_DEVICE T binary_value(T a, T b) {
  using B = BinaryKind;
  constexpr bool real = std::is_floating_point_v<T>;
  if constexpr (K == B::equal) return T(a == b);
  else if constexpr (K == B::not_equal) return T(a != b);
  else if constexpr (K == B::greater) return T(a > b);
  else if constexpr (K == B::greater_equal) return T(a >= b);
  else if constexpr (K == B::lesser) return T(a < b);
  else if constexpr (K == B::lesser_equal) return T(a <= b);
  else if constexpr (K == B::logical_and) return T((a != T(0)) & (b != T(0)));
  else if constexpr (K == B::logical_or) return T((a != T(0)) | (b != T(0)));
  else if constexpr (K == B::logical_xor) return T((a != T(0)) ^ (b != T(0)));
  else if constexpr (K == B::maximum) return a >= b || a != a ? a : b;
  else if constexpr (K == B::minimum) return a <= b || a != a ? a : b;
  else if constexpr (K == B::mod) return mod_value(a, b);
  else if constexpr (real) {
    if constexpr (K == B::add) return a + b;
    else if constexpr (K == B::sub) return a - b;
    else if constexpr (K == B::mul) return a * b;
    else if constexpr (K == B::div) return a / b;
    else if constexpr (K == B::power) return ::pow(a, b);
    else if constexpr (K == B::logaddexp) return logaddexp_value(a, b);
    else return ::hypot(a, b);
  } else {
    using W = wrap_t<T>;
    if constexpr (K == B::add) return T(W(a) + W(b));
    else if constexpr (K == B::sub) return T(W(a) - W(b));
    else if constexpr (K == B::mul) return T(W(a) * W(b));
    else if constexpr (K == B::power) return integer_power(a, b);
    else if constexpr (K == B::hypot) return from_number<T>(::hypot(double(a), double(b)));
    else {
      if (b == T(0)) return T(0);
      if (std::is_signed_v<T> && b == T(-1)) return T(W(0) - W(a));
      return T(a / b);
    }
  }
}

// The number of a function of an array of T and a number. A bound beyond the range of integers is its end.
template <class T>
T scalar_operand(BinaryKind kind, double s) {
  if constexpr (!std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    if (kind == BinaryKind::maximum || kind == BinaryKind::minimum) {
      return s >= double(L::max()) ? L::max() : s <= double(L::min()) ? L::min() : T(s);
    }
  }
  return from_number<T>(s);
}

// Comparisons of integers see the number itself: 2.5, or 300 against uint8, are no values of the dtype. T: the array's.
template <class T>
struct ComparedNumber {
  using Integer = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
  bool is_integer;
  Integer integer = 0;
  double real;

  explicit ComparedNumber(double s) {
    constexpr double end = std::is_signed_v<Integer> ? 0x1p63 : 0x1p64, least = std::is_signed_v<Integer> ? -end : 0;
    is_integer = s >= least && s < end && s == double(Integer(s));
    if (is_integer) integer = Integer(s);
    real = ::fabs(s) >= end ? 2 * s : s;  // beyond every integer, also beyond those that round to the end
  }
};

// The bounds of clip as T. For integers: the integers inside the bounds and the dtype's range.
template <class T>
void clip_bounds(double a_min, double a_max, T& low, T& high) {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    low = T(a_min), high = T(a_max);
  } else {
    a_min = ::ceil(a_min), a_max = ::floor(a_max);
    low = a_min <= double(L::min()) ? L::min() : a_min >= double(L::max()) ? L::max() : T(a_min);
    high = a_max <= double(L::min()) ? L::min() : a_max >= double(L::max()) ? L::max() : T(a_max);
  }
}

template <class T>
KAON_HOST_DEVICE T clip_value(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

template <class T>
KAON_HOST_DEVICE T clip_backward_value(T head, T x, T low, T high) {
  return x < low || x > high ? T(0) : head;
}

template <class T>
KAON_HOST_DEVICE T quadratic_value(T x, T a, T b, T c) {
  return (a * x + b) * x + c;
}

template <class T>
KAON_HOST_DEVICE T hard_sigmoid_value(T x, T alpha, T beta) {
  const T v = alpha * x + beta, above = v < T(0) ? T(0) : v;  // in this order NaN stays
  return above > T(1) ? T(1) : above;
}

// x^0.5: the square root, but +0 at -0 and inf at -inf.
template <class T>
KAON_HOST_DEVICE T root_value(T x) {
  return x == -std::numeric_limits<T>::infinity() ? -x : ::sqrt(x + T(0));
}

// scale x where x > 0, else scale slope x (`linear`) or scale slope (e^x - 1): leaky relu, elu and selu. And a head
// times the derivative, that on the left side of 0 at 0; NaN where x is.
template <class T>
KAON_HOST_DEVICE T leaky_value(T x, T slope, T scale, bool linear) {
  return scale * (x <= T(0) ? slope * (linear ? x : ::expm1(x)) : x);
}
template <class T>
KAON_HOST_DEVICE T leaky_backward_value(T head, T x, T slope, T scale, bool linear) {
  return scale * (x > T(0) ? head : x != x ? x : head * (linear ? slope : slope * ::exp(x)));
}

// A head times the derivative, from the output y.
template <class T>
KAON_HOST_DEVICE T softrelu_backward_value(T head, T y) {
  return head * -::expm1(-y);
}
template <class T>
KAON_HOST_DEVICE T softsign_backward_value(T head, T y) {
  const T s = T(1) - ::fabs(y);
  return head * (s * s);
}

// 0.5 (s x)^2 where |x| < 1 / s^2, else |x| - 0.5 / s^2.
template <class T>
KAON_HOST_DEVICE T smooth_l1_value(T x, T s) {
  const T a = ::fabs(x), s2 = s * s;
  return a * s2 < T(1) ? T(0.5) * s2 * x * x : a - T(0.5) / s2;
}

}  // namespace kaon::ops

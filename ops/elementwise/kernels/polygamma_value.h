// The polygamma functions on single values, for CPU and CUDA kernels. A light header.
#pragma once

#include <math.h>

#include <limits>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// n! / x^(n + 1), of either sign. Factor by factor: neither the factorial nor the power overflows by itself.
KAON_HOST_DEVICE inline double polygamma_term(int n, double x) {
  double term = 1.0 / x;
  for (int i = 1; i <= n; ++i) term *= double(i) / x;
  return term;
}

// n! zeta(n + 1, x) for x that is no pole: recurrence up to a large argument, then the Euler-Maclaurin series
// (Abramowitz and Stegun 6.4.6, 6.4.11).
KAON_HOST_DEVICE inline double polygamma_sum(int n, double x) {
  constexpr int terms = 12;
  // (2 j)! / B_2j
  constexpr double divisors[terms] = {12.0,
                                      -720.0,
                                      30240.0,
                                      -1209600.0,
                                      47900160.0,
                                      -1307674368000.0 / 691,
                                      74724249600.0,
                                      -10670622842880000.0 / 3617,
                                      5109094217170944000.0 / 43867,
                                      -802857662698291200000.0 / 174611,
                                      1.8152105401943546773e17,
                                      -7.1661652561756670113e18};
  if (::isinf(x)) return 0.0;
  double sum = 0.0;
  for (const double large = 15.0 + n; x < large; x += 1.0) sum += polygamma_term(n, x);
  const double first = polygamma_term(n, x);
  double factor = first, series = 0.0;  // factor: first (n + 1) (n + 2) ... (n + 2 j - 1) / x^(2 j - 1)
  for (int j = 1; j <= terms; ++j) {
    factor *= (j == 1 ? 1.0 : (n + 2.0 * j - 2.0) / x) * ((n + 2.0 * j - 1.0) / x);
    series += factor / divisors[j - 1];
  }
  return sum + first * (x / n) + 0.5 * first + series;
}

KAON_HOST_DEVICE inline double polygamma_value(int n, double x) {
  const bool odd = n % 2 != 0;
  if (x != x || x == -std::numeric_limits<double>::infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0.0 && x == ::floor(x)) {
    return odd ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  double sum;
  if (x > -30.0) {
    sum = polygamma_sum(n, x);
  } else {  // the sum over all integers, less those below
    const double nearest = x - ::round(x), part = nearest < 0.0 ? 1.0 + nearest : nearest;
    const double rest = nearest < 0.0 ? -nearest : 1.0 - nearest;
    const double other = polygamma_sum(n, rest) - polygamma_sum(n, 1.0 - x);
    sum = polygamma_sum(n, part) + (odd ? other : -other);
  }
  return odd ? sum : -sum;
}

}  // namespace kaon::ops

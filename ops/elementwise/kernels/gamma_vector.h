// log |Gamma| and the digamma function of double vectors that hold float32 numbers. Included inside foreach_target
// files, like math.h.

#if defined(KAON_OPS_ELEMENTWISE_GAMMA_VECTOR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_GAMMA_VECTOR_H_
#undef KAON_OPS_ELEMENTWISE_GAMMA_VECTOR_H_
#else
#define KAON_OPS_ELEMENTWISE_GAMMA_VECTOR_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The polynomial of these coefficients, from the highest power down.
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const double (&coefficients)[N]) {
  V sum = hn::Set(d, coefficients[0]);
  for (size_t i = 1; i < N; ++i) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i]));
  return sum;
}

// log Gamma of x in (0, 8): moved to y in [1.5, 2.5) by factors, then (y - 2) q(y - 2) with the least error, 4e-12.
template <class D, class V>
HWY_INLINE V LogGammaNear(D d, V x) {
  static constexpr double q[] = {0.000024833614569710893,  -0.0000527972644234680415, 0.0000979304491418352064,
                                 -0.000220863556258178222, 0.00050992569687189286,    -0.00119305607406061711,
                                 0.00289048934873514491,   -0.00738553313934961723,   0.0205808091729219905,
                                 -0.0673523014392127771,   0.322467033416413946,      0.422784335099814174};
  const V one = hn::Set(d, 1.0), low = hn::Set(d, 1.5), high = hn::Set(d, 2.5);
  V y = x, factors = one;
  for (;;) {
    const auto is_high = hn::Ge(y, high);
    if (hn::AllFalse(d, is_high)) break;
    y = hn::IfThenElse(is_high, hn::Sub(y, one), y);
    factors = hn::IfThenElse(is_high, hn::Mul(factors, y), factors);
  }
  for (;;) {
    const auto is_low = hn::Lt(y, low);
    if (hn::AllFalse(d, is_low)) break;
    factors = hn::IfThenElse(is_low, hn::Mul(factors, y), factors);
    y = hn::IfThenElse(is_low, hn::Add(y, one), y);
  }
  const V moved = hn::Log(d, factors), t = hn::Sub(y, hn::Set(d, 2.0));
  return hn::MulAdd(t, Polynomial(d, t, q), hn::IfThenElse(hn::Lt(x, low), hn::Neg(moved), moved));
}

// From 8 on: Stirling's series (Abramowitz and Stegun 6.1.41).
template <class D, class V>
HWY_INLINE V LogGammaFar(D d, V x) {
  static constexpr double c[] = {1.0 / 1260, -1.0 / 360, 1.0 / 12};
  const V r = hn::Div(hn::Set(d, 1.0), x);
  const V series = hn::MulAdd(r, Polynomial(d, hn::Mul(r, r), c), hn::Set(d, 0.91893853320467274));
  return hn::Add(hn::MulSub(hn::Sub(x, hn::Set(d, 0.5)), hn::Log(d, x), x), series);
}

// x less the nearest integer: half a period of tan(pi x).
template <class V>
HWY_INLINE V FromNearest(V x) {
  return hn::Sub(x, hn::Round(x));
}

// log |Gamma(x)|; infinite at 0, at negative integers and at both infinities. Below 0 by reflection (6.1.17).
struct LogGamma {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), inf = hn::Inf(d), one = hn::Set(d, 1.0), a = hn::Abs(x), limit = hn::Set(d, 8.0);
    const auto is_near = hn::Lt(a, limit), is_negative = hn::Lt(x, zero);
    V y;
    if (hn::AllTrue(d, is_near)) {
      y = LogGammaNear(d, hn::IfThenElse(hn::Eq(a, zero), one, a));
    } else {
      const auto is_regular = hn::And(is_near, hn::Gt(a, zero));
      y = hn::IfThenElse(is_near, LogGammaNear(d, hn::IfThenElse(is_regular, a, one)),
                         LogGammaFar(d, hn::IfThenElse(is_near, limit, a)));
    }
    if (!hn::AllFalse(d, is_negative)) {
      const V pi = hn::Set(d, 3.14159265358979323846),
              part = hn::Abs(FromNearest(hn::IfThenElse(hn::Lt(a, inf), a, zero)));
      const V sine = hn::Sin(d, hn::Mul(pi, hn::IfThenElse(hn::Eq(part, zero), hn::Set(d, 0.5), part)));
      const V reflected = hn::Sub(hn::Log(d, hn::Div(pi, hn::Mul(hn::Max(a, hn::Set(d, 1e-300)), sine))), y);
      y = hn::IfThenElse(is_negative, hn::IfThenElse(hn::Eq(part, zero), inf, reflected), y);
    }
    y = hn::IfThenElse(hn::Or(hn::Eq(x, zero), hn::Eq(a, inf)), inf, y);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
};

// As digamma_value in scalar_math.h, with the fractions of the recurrence added up over one denominator.
struct Digamma {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    static constexpr double c[] = {-691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12};
    const V zero = hn::Zero(d), one = hn::Set(d, 1.0), inf = hn::Inf(d), limit = hn::Set(d, 10.0);
    const auto is_negative = hn::Lt(x, zero), is_finite = hn::Lt(hn::Abs(x), inf);
    V y = hn::IfThenElse(is_negative, hn::Sub(one, x), x);
    y = hn::IfThenElse(hn::And(is_finite, hn::Ne(x, zero)), y, one);
    V over = zero, under = one;
    for (;;) {
      const auto is_low = hn::Lt(y, limit);
      if (hn::AllFalse(d, is_low)) break;
      over = hn::IfThenElse(is_low, hn::MulAdd(over, y, under), over);
      under = hn::IfThenElse(is_low, hn::Mul(under, y), under);
      y = hn::IfThenElse(is_low, hn::Add(y, one), y);
    }
    const V r = hn::Div(one, y), q = hn::Mul(r, r);
    V result = hn::Sub(hn::Log(d, y), hn::MulAdd(r, hn::Set(d, 0.5), hn::Mul(q, Polynomial(d, q, c))));
    result = hn::Sub(result, hn::Div(over, under));
    if (!hn::AllFalse(d, is_negative)) {
      const V pi = hn::Set(d, 3.14159265358979323846), part = FromNearest(hn::IfThenElse(is_finite, x, zero));
      const V angle = hn::Mul(pi, part), cotangent = hn::Div(hn::Cos(d, angle), hn::Sin(d, angle));
      const V reflected = hn::NegMulAdd(pi, cotangent, result);
      result = hn::IfThenElse(is_negative, hn::IfThenElse(hn::Eq(part, zero), inf, reflected), result);
    }
    result = hn::IfThenElse(hn::Eq(x, zero), inf, result);
    return hn::IfThenElse(hn::Or(hn::Eq(x, inf), hn::IsNaN(x)), x, result);
  }
};

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

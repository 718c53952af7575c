// The elementwise vocabulary over Highway vectors of float32: exp, log, tanh, sigmoid, erf, pow and the rest.
// Compiled once per instruction set: include it after <hwy/highway.h> inside a foreach_target file, and call
// math::HWY_NAMESPACE::exp(d, x). Every function follows std:: for NaN, infinities and zeros. The bounds in
// the comments are against double references over the whole finite range (tests hold them).

#if defined(KAON_OPS_ELEMENTWISE_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_MATH_H_
#undef KAON_OPS_ELEMENTWISE_MATH_H_
#else
#define KAON_OPS_ELEMENTWISE_MATH_H_
#endif

#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::math::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// c[0] + c[1] x + c[2] x^2 ...
template <class D, class V, size_t N>
HWY_INLINE V polynomial(D d, V x, const float (&c)[N]) {
  V r = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) r = hn::MulAdd(r, x, hn::Set(d, c[i]));
  return r;
}

// e^x = 2^n y for x in [-104, 88.73], or NaN: n in the lowest bits of `power`.
template <class V>
struct ExpParts {
  V power, y;
};
template <class D, class V>
HWY_INLINE ExpParts<V> exp_parts(D d, V x) {
  // x = n log 2 + r; adding 1.5 2^23 rounds to the integer n, which is then in the lowest bits
  const V shift = hn::Set(d, 12582912.0f), shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
  // 1 + r + r^2 q(r) with the least relative error for |r| <= log(2) / 2: 3e-9
  V y = hn::MulAdd(r, hn::Set(d, 1.3814320e-3f), hn::Set(d, 8.368852e-3f));
  y = hn::MulAdd(y, r, hn::Set(d, 4.166840e-2f));
  y = hn::MulAdd(y, r, hn::Set(d, 0.16666520f));
  y = hn::MulAdd(y, r, hn::Set(d, 0.49999994f));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
  return {shifted, y};
}

// e^x, 1 ulp.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V highest = hn::Set(d, 88.72283935546875f);  // it overflows from here on
  const V lowest = hn::Set(d, -104.0f);              // and rounds to 0
  const auto is_high = hn::Ge(x, highest), is_negative = hn::Lt(x, hn::Zero(d));
  const ExpParts<V> p = exp_parts(d, hn::IfThenElse(hn::Lt(x, lowest), lowest, hn::IfThenElse(is_high, highest, x)));
  // below 0 times 2^(n + 64), then 2^-64: the result may be below the normal numbers
  const V zero = hn::Zero(d);
  const V raised = hn::IfThenElse(is_negative, hn::BitCast(d, hn::Set(di, 64)), zero);
  const V factor = hn::IfThenElse(is_negative, hn::Set(d, 0x1p-64f), hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, p.power), hn::BitCast(di, raised)));
  const V y = hn::Mul(hn::BitCast(d, hn::Add(hn::BitCast(di, p.y), power)), factor);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(is_high, hn::Set(d, infinity), y));
}

// e^x for x <= 0, or NaN: 1 ulp, with less work than exp.
template <class D, class V>
HWY_INLINE V exp_below(D d, V x) {
  const hn::RebindToSigned<D> di;
  const ExpParts<V> p = exp_parts(d, hn::IfThenElse(hn::Lt(x, hn::Set(d, -104.0f)), hn::Set(d, -104.0f), x));
  // 2^n in two steps, since it may be below the normal numbers
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, p.power), hn::Set(di, 127 + 64)));
  return hn::Mul(hn::Mul(p.y, hn::BitCast(d, power)), hn::Set(d, 0x1p-64f));
}

// e^x - 1, 4 ulp.
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  V r = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.72283935546875f)), hn::Set(d, infinity), hn::Expm1(d, clamped));
  // below this x equals its own image, and the zero keeps its sign
  r = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-8f)), x, r);
  return hn::IfThenElse(hn::IsNaN(x), x, r);
}

// log outside (0, inf): -inf at 0, NaN below, x itself for inf and NaN.
template <class D, class V>
HWY_INLINE V log_special(D d, V x) {
  const V nan = hn::Set(d, not_a_number);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -infinity), hn::IfThenElse(hn::Lt(x, hn::Zero(d)), nan, x));
}

template <class D, class V>
HWY_INLINE auto positive_finite(D d, V x) {
  return hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, infinity)));
}

// Natural logarithm, 4 ulp.
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  return hn::IfThenElse(positive_finite(d, x), hn::Log(d, x), log_special(d, x));
}

// log(1 + x), 4 ulp.
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const V y = hn::Add(x, hn::Set(d, 1.0f));
  return hn::IfThenElse(positive_finite(d, y), hn::Log1p(d, x), log_special(d, y));
}

// Doubles rounded to float32. Where DemoteTo is emulated it clamps to finite numbers.
template <class D, class V>
HWY_INLINE hn::Vec<D> rounded(D d, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, float(hn::GetLane(x)));
#elif HWY_TARGET == HWY_EMU128
  double from[4];
  float to[4];
  hn::StoreU(x, hn::Rebind<double, D>(), from);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = float(from[i]);
  return hn::LoadU(d, to);
#else
  return hn::DemoteTo(d, x);
#endif
}

// f of double vectors, rounded once to float32: for functions that need the bits.
template <class D, class F, class... V>
HWY_INLINE hn::Vec<D> in_double(D d, const F& f, V... x) {
#if HWY_TARGET == HWY_SCALAR
  const hn::Rebind<double, D> dd;
  return rounded(d, f(dd, hn::PromoteTo(dd, x)...));
#else
  const hn::Half<D> dh;
  const hn::RepartitionToWide<D> dd;
  const auto lower = f(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x))...);
  const auto upper = f(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x))...);
  return hn::Combine(d, rounded(dh, upper), rounded(dh, lower));
#endif
}

// log(x) * factor, rounded once: log2(8) is 3.
struct ScaledLog {
  double factor;
  template <class DD, class VD>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    return hn::Mul(hn::Log(dd, x), hn::Set(dd, factor));
  }
};

// Logarithms of base 2 and 10, 1 ulp.
template <class D, class V>
HWY_INLINE V log2(D d, V x) {
  return hn::IfThenElse(positive_finite(d, x), in_double(d, ScaledLog{1.4426950408889634}, x), log_special(d, x));
}
template <class D, class V>
HWY_INLINE V log10(D d, V x) {
  return hn::IfThenElse(positive_finite(d, x), in_double(d, ScaledLog{0.43429448190325182}, x), log_special(d, x));
}

// tanh(x), 3 ulp: below 0.625 x + x^3 q(x^2) with the least relative error, 4e-9; above (1 - e) / (1 + e), e = e^-2|x|.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f), a = hn::Abs(x), square = hn::Mul(x, x);
  const V e = exp_below(d, hn::Mul(a, hn::Set(d, -2.0f)));
  const V outer = hn::Div(hn::Sub(one, e), hn::Add(one, e));
  V q = hn::MulAdd(square, hn::Set(d, -5.700231e-3f), hn::Set(d, 2.0634998e-2f));
  q = hn::MulAdd(q, square, hn::Set(d, -5.3738516e-2f));
  q = hn::MulAdd(q, square, hn::Set(d, 0.13331428f));
  q = hn::MulAdd(q, square, hn::Set(d, -0.3333328f));
  const V inner = hn::MulAdd(hn::Mul(square, q), a, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), inner, outer), x);
}

// 1 / (1 + e^-x), 3 ulp: with e^-|x|, so that nothing overflows and small values keep their bits.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f), e = exp_below(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// log(1 + e^x), 4 ulp.
template <class D, class V>
HWY_INLINE V softrelu(D d, V x) {
  const V tail = log1p(d, exp_below(d, hn::Neg(hn::Abs(x))));
  return hn::Add(hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), tail);
}

// The error function, 3 ulp: an odd polynomial below 1 (interpolating at Chebyshev nodes of x^2), and
// 1 - exp(p(|x|)) above, with p interpolating log(erfc) on [1, 4]. From 4 on it rounds to 1.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  static constexpr float small[] = {1.12837917f,    -0.376126267f,    0.112835947f,   -0.026854212f,
                                    0.00518908742f, -0.000801686428f, 7.87587505e-05f};
  static constexpr float large[] = {0.000320138052f, -1.13023343f,    -0.631826052f,    -0.110080083f,  0.026421136f,
                                    -0.00475959629f, 0.000596805626f, -4.60580427e-05f, 1.63715141e-06f};
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(x);
  const V inner = hn::Mul(x, polynomial(d, hn::Mul(x, x), small));
  const V p = polynomial(d, hn::Min(a, hn::Set(d, 4.0f)), large);
  const V outer = hn::CopySign(hn::Sub(one, exp_below(d, p)), x);
  const V r = hn::IfThenElse(hn::Lt(a, one), inner, outer);
  return hn::IfThenElse(hn::IsNaN(x), x, r);
}

// The normal distribution: e^(-x^2 / 2), and the probability above |x|, with |x| at most 13. Not NaN where x is.
template <class V>
struct NormalTail {
  V density, above;
};
// above = s(u) e^(-x^2 / 2), u = k |x| / (1 + k |x|): the form of Abramowitz and Stegun 26.2.17, s of the least error.
// 1 ulp of 0.5; a relative error of 1e-5 where it is small.
template <class D, class V>
HWY_INLINE NormalTail<V> normal_tail(D d, V x) {
  static constexpr float s[] = {0.5f,           -1.13983827f,    0.901117923f,  -0.1617413585f,
                                -0.1444580499f, -0.03327438705f, 0.1199690831f, -0.04177474292f};
  // 2^f with a relative error of 9e-8 for |f| <= 0.5, exact at 0
  static constexpr float power[] = {1.0f,           0.6931470037f,   0.2402224243f,
                                    0.05550733581f, 0.009671512991f, 0.001326472848f};
  const hn::RebindToSigned<D> di;
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 13.0f)), scaled = hn::Mul(a, hn::Set(d, 0.35f));
  const V u = hn::Div(scaled, hn::Add(scaled, hn::Set(d, 1.0f)));
  // -x^2 / 2 = (n + f) log 2; adding 1.5 2^23 rounds to n, which is then in the lowest bits
  const V shift = hn::Set(d, 12582912.0f), t = hn::Mul(hn::Mul(a, hn::Set(d, -0.72134752f)), a);
  const V shifted = hn::Add(t, shift), f = hn::Sub(t, hn::Sub(shifted, shift));
  const auto bits = hn::Add(hn::BitCast(di, polynomial(d, f, power)), hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  const V density = hn::BitCast(d, bits);
  return {density, hn::Mul(polynomial(d, u, s), density)};
}

// x * Phi(x): 4 ulp above 0; a relative error of 2e-5 below, and 0 from -13 on.
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  const V size = hn::Min(hn::Abs(x), hn::Set(d, 13.0f)), above = normal_tail(d, x).above;
  // x - |x| above, below 0 -|x| above; a NaN is not below
  const V y = hn::NegMulAdd(size, above, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -13.0f)), hn::Neg(hn::Zero(d)), y);
}

// d gelu / dx = Phi(x) + x phi(x). Absolute error 2e-6.
template <class D, class V>
HWY_INLINE V gelu_slope(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -20.0f)), hn::Set(d, 20.0f));  // inf * 0 would give NaN
  const NormalTail<V> tail = normal_tail(d, x);
  const V cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail.above, hn::Sub(hn::Set(d, 1.0f), tail.above));
  const V slope = hn::MulAdd(bounded, hn::Mul(hn::Set(d, 0.39894228f), tail.density), cdf);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -13.0f)), slope));
}

// x^y by 2^(y log2 x) for x >= 0; 0 and infinity included, signs are the caller's. x is a float32. The logarithm has a
// relative error of 2^-38, the power of 2^-34: after rounding to float32 an ulp is left.
struct PowMagnitude {
  template <class DD, class VD>
  HWY_INLINE VD operator()(DD dd, VD x, VD y) const {
    const hn::RebindToUnsigned<DD> du;
    const VD inf = hn::Set(dd, std::numeric_limits<double>::infinity()), one = hn::Set(dd, 1.0);
    // x = 2^e m, m in [sqrt(1/2), sqrt(2)): e from the exponent of x / sqrt(1/2), as the low bits of 2^52 + e + 1023
    constexpr uint64_t root = 0x3fe6a09e667f3bcdu, unit = 0x3ff0000000000000u, high = 0x4330000000000000u;
    const auto bits = hn::Add(hn::BitCast(du, x), hn::Set(du, unit - root));
    const VD e = hn::Sub(hn::BitCast(dd, hn::Or(hn::ShiftRight<52>(bits), hn::Set(du, high))),
                         hn::Set(dd, 4503599627370496.0 + 1023));
    const VD m = hn::BitCast(dd, hn::Add(hn::And(bits, hn::Set(du, 0x000fffffffffffffu)), hn::Set(du, root)));
    // log2(1 + f) / f with the least relative error, its even and its odd powers
    const VD f = hn::Sub(m, one), f2 = hn::Mul(f, f);
    const auto step = [&](VD sum, double c) HWY_ATTR { return hn::MulAdd(sum, f2, hn::Set(dd, c)); };
    VD even = hn::Set(dd, 0.132511363249365206), odd = hn::Set(dd, -0.0697382295751726728);
    even = step(even, 0.130275797185320165), odd = step(odd, -0.134629466261941693);
    even = step(even, 0.160216647607810994), odd = step(odd, -0.14249862805226499);
    even = step(even, 0.206107124107774262), odd = step(odd, -0.180436750814857979);
    even = step(even, 0.288538795701715369), odd = step(odd, -0.240446433578995107);
    even = step(even, 0.480898348803111455), odd = step(odd, -0.360673793137304534);
    even = step(even, 1.44269504088657403), odd = step(odd, -0.721347520327549806);
    VD l = hn::MulAdd(hn::MulAdd(odd, f, even), f, e);
    l = hn::IfThenElse(hn::Eq(x, hn::Zero(dd)), hn::Neg(inf), hn::IfThenElse(hn::Eq(x, inf), inf, l));
    // 2^t = 2^n 2^r; beyond +-1000 float32 over- or underflows anyway. Adding 1.5 2^52 rounds to n, then in the low
    // bits
    const VD t = hn::Min(hn::Max(hn::Mul(y, l), hn::Set(dd, -1000.0)), hn::Set(dd, 1000.0));
    const VD shift = hn::Set(dd, 6755399441055744.0), shifted = hn::Add(t, shift),
             r = hn::Sub(t, hn::Sub(shifted, shift));
    VD p = hn::MulAdd(r, hn::Set(dd, 1.52019181175252346e-5), hn::Set(dd, 1.54692911137248964e-4));
    p = hn::MulAdd(p, r, hn::Set(dd, 1.33339225785145039e-3));
    p = hn::MulAdd(p, r, hn::Set(dd, 9.61802725377328843e-3));
    p = hn::MulAdd(p, r, hn::Set(dd, 0.0555041035342942301));
    p = hn::MulAdd(p, r, hn::Set(dd, 0.240226511981566039));
    p = hn::MulAdd(p, r, hn::Set(dd, 0.693147180728452765));
    p = hn::MulAdd(p, r, one);
    return hn::BitCast(dd, hn::Add(hn::BitCast(du, p), hn::ShiftLeft<52>(hn::BitCast(du, shifted))));
  }
};

// x^y with the conventions of std::pow, 1 ulp.
template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d), inf = hn::Set(d, infinity), half = hn::Set(d, 0.5f);
  const V a = hn::Abs(x);
  V r = in_double(d, PowMagnitude{}, a, y);
  const auto integer = hn::Eq(y, hn::Floor(y));
  const V h = hn::Mul(y, half);
  const auto odd = hn::AndNot(hn::Eq(h, hn::Floor(h)), integer);
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const auto negative = hn::And(hn::Lt(x, zero), hn::Lt(a, inf));
  r = hn::IfThenElse(hn::AndNot(integer, negative), hn::Set(d, not_a_number), r);
  r = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), r);
  const auto is_one = hn::Or(hn::Or(hn::Eq(x, one), hn::Eq(y, zero)), hn::And(hn::Eq(a, one), hn::Eq(hn::Abs(y), inf)));
  return hn::IfThenElse(is_one, one, r);
}

// Sine and cosine, 4 ulp. The vector reduction holds to 39000; lanes beyond take the scalar function.
template <class D, class V, class F>
HWY_NOINLINE V beyond_range(D d, V x, V r, F scalar) {
  HWY_ALIGN float in[hn::MaxLanes(d)];
  HWY_ALIGN float out[hn::MaxLanes(d)];
  hn::Store(x, d, in);
  hn::Store(r, d, out);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!(std::abs(in[i]) <= 39000.0f)) out[i] = scalar(in[i]);
  }
  return hn::Load(d, out);
}
template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  const V a = hn::Abs(x);
  const auto in_range = hn::Le(a, hn::Set(d, 39000.0f));
  V r = hn::Sin(d, hn::IfThenElseZero(in_range, x));
  r = hn::IfThenElse(hn::Lt(a, hn::Set(d, 1e-4f)), x, r);  // keeps subnormals and the sign of zero
  if (HWY_UNLIKELY(!hn::AllTrue(d, in_range)))
    r = beyond_range(
        d, x, r, +[](float v) { return std::sin(v); });
  return r;
}
template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  const auto in_range = hn::Le(hn::Abs(x), hn::Set(d, 39000.0f));
  V r = hn::Cos(d, hn::IfThenElseZero(in_range, x));
  if (HWY_UNLIKELY(!hn::AllTrue(d, in_range)))
    r = beyond_range(
        d, x, r, +[](float v) { return std::cos(v); });
  return r;
}

// Inverse functions, 4 ulp; NaN outside [-1, 1] for arcsin and arccos.
template <class D, class V>
HWY_INLINE V arcsin(D d, V x) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), hn::Set(d, 1.0f)), hn::Asin(d, x), hn::Set(d, not_a_number));
}
template <class D, class V>
HWY_INLINE V arccos(D d, V x) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), hn::Set(d, 1.0f)), hn::Acos(d, x), hn::Set(d, not_a_number));
}
template <class D, class V>
HWY_INLINE V arctan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Atan(d, x));
}

template <class D, class V>
HWY_INLINE V rsqrt(D d, V x) {
  return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));
}

// NaN when either is NaN.
template <class V>
HWY_INLINE V maximum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Ge(a, b), hn::IsNaN(a)), a, b);
}
template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Le(a, b), hn::IsNaN(a)), a, b);
}

// a != b, true when either is NaN (Highway's Ne is not, on x86).
template <class V>
HWY_INLINE auto not_equal(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}

// max(x, 0); NaN stays.
template <class D, class V>
HWY_INLINE V relu(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(x.raw) == 64) {  // one instruction for two: zeros, -inf and negative numbers become 0
    return V{_mm512_fixupimm_ps(x.raw, x.raw, _mm512_set1_epi32(0x08080800), 0)};
  }
#endif
  return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
}

// log(e^a + e^b) = max(a, b) + log(1 + e^-|a - b|), equal infinities included: 2 ulp of max(|result|, 1).
template <class D, class V>
HWY_INLINE V logaddexp(D d, V a, V b) {
  const V gap = hn::IfThenElse(hn::Eq(a, b), hn::Zero(d), hn::Abs(hn::Sub(a, b)));
  return hn::Add(maximum(a, b), log1p(d, exp_below(d, hn::Neg(gap))));
}

struct Norm {
  template <class DD, class VD>
  HWY_INLINE VD operator()(DD, VD a, VD b) const {
    return hn::Sqrt(hn::MulAdd(a, a, hn::Mul(b, b)));
  }
};

// sqrt(a^2 + b^2) without overflow, 1 ulp.
template <class D, class V>
HWY_INLINE V hypot(D d, V a, V b) {
  const V inf = hn::Set(d, infinity);
  const auto infinite = hn::Or(hn::Eq(hn::Abs(a), inf), hn::Eq(hn::Abs(b), inf));
  return hn::IfThenElse(infinite, inf, in_double(d, Norm{}, a, b));
}

}  // namespace kaon::ops::math::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

// Remainders of float32 vectors, exact as fmod is. For kernels on Highway.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_REMAINDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_REMAINDER_INL_H_
#undef KAON_OPS_REMAINDER_INL_H_
#else
#define KAON_OPS_REMAINDER_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The remainder of a / b with the sign of a. A quotient below 2^23 is rounded to the right whole number or to the next
// one; the remainder of either is a float, which a fused multiply-add gives exactly. Other lanes take fmod: larger
// quotients, infinities, NaN, a divisor of 0.
template <class D, class V>
HWY_INLINE V fmod(D d, V a, V b) {
#if HWY_NATIVE_FMA
  const V x = hn::Abs(a), y = hn::Abs(b), quotient = hn::Div(x, y);
  const auto is_near = hn::And(hn::Lt(quotient, hn::Set(d, 0x1p23f)), hn::Le(y, hn::Set(d, 0x1.fffffep127f)));
  if (HWY_LIKELY(hn::AllTrue(d, is_near))) {
    const V rest = hn::NegMulAdd(hn::Trunc(quotient), y, x);
    return hn::CopySign(hn::IfThenElse(hn::Lt(rest, hn::Zero(d)), hn::Add(rest, y), rest), a);
  }
#endif
  HWY_ALIGN float dividends[hn::MaxLanes(d)], divisors[hn::MaxLanes(d)];
  hn::Store(a, d, dividends);
  hn::Store(b, d, divisors);
  for (size_t i = 0; i < hn::Lanes(d); ++i) dividends[i] = std::fmod(dividends[i], divisors[i]);
  return hn::Load(d, dividends);
}

// The remainder with the sign of b, as mod_value: 0 for a divisor of 0.
template <class D, class V>
HWY_INLINE V modulo(D d, V a, V b) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto by_zero = hn::Eq(b, zero);
  const V rest = fmod(d, a, hn::IfThenElse(by_zero, one, b));
  const auto moved = hn::Or(hn::And(hn::Lt(rest, zero), hn::Gt(b, zero)), hn::And(hn::Gt(rest, zero), hn::Lt(b, zero)));
  return hn::IfThenZeroElse(by_zero, hn::IfThenElse(moved, hn::Add(rest, b), rest));
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle

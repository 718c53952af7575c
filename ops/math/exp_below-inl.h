// e^x where x is no more than 0, as softmax has it: half the work of exp.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_MATH_EXP_BELOW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_MATH_EXP_BELOW_INL_H_
#undef KAON_OPS_MATH_EXP_BELOW_INL_H_
#else
#define KAON_OPS_MATH_EXP_BELOW_INL_H_
#endif

#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {

// e^x for x <= 0, or NaN: 1 ulp.
template <class D, class V>
HWY_INLINE V exp_below(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return exp(d, x);
  } else {
    // x = n log 2 + r; adding 1.5 2^23 rounds to the integer n, which is then in the lowest bits
    const hn::RebindToSigned<D> di;
    const V bounded = hn::IfThenElse(hn::Lt(x, hn::Set(d, -104.0f)), hn::Set(d, -104.0f), x);  // e^-104 rounds to 0
    const V shift = hn::Set(d, 12582912.0f), shifted = hn::MulAdd(bounded, hn::Set(d, 1.44269504f), shift);
    const V n = hn::Sub(shifted, shift);
    const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded));
    // 1 + r + r^2 q(r) with the least relative error for |r| <= log(2) / 2: 3e-9
    V y = hn::MulAdd(r, hn::Set(d, 1.3814320e-3f), hn::Set(d, 8.368852e-3f));
    y = hn::MulAdd(y, r, hn::Set(d, 4.166840e-2f));
    y = hn::MulAdd(y, r, hn::Set(d, 0.16666520f));
    y = hn::MulAdd(y, r, hn::Set(d, 0.49999994f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
    // 2^n in two steps, since it may lie below the normal numbers
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127 + 64)));
    return hn::Mul(hn::Mul(y, hn::BitCast(d, power)), hn::Set(d, 0x1p-64f));
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle

// The functions of gates on vectors: with an exponential that is bounded above they take a third of the time.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_RNN_GATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_RNN_GATES_INL_H_
#undef KAON_OPS_RNN_GATES_INL_H_
#else
#define KAON_OPS_RNN_GATES_INL_H_
#endif

#include <hwy/highway.h>

#include "kaon/ops/math/exp_below-inl.h"
#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {

// 1 / (1 + e^-x), 3 ulp: with e^-|x|, so that small values keep their bits.
template <class D, class V>
HWY_INLINE V gate(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return sigmoid(d, x);
  } else {
    const V one = hn::Set(d, 1.0f), e = exp_below(d, hn::Neg(hn::Abs(x)));
    return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
  }
}

// tanh(x), 3 ulp: below 0.625 x + x^3 q(x^2) with the least relative error, 4e-9; above (1 - e) / (1 + e), e = e^-2|x|.
template <class D, class V>
HWY_INLINE V squash(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return tanh(d, x);
  } else {
    const V one = hn::Set(d, 1.0f), a = hn::Abs(x), square = hn::Mul(x, x);
    const V e = exp_below(d, hn::Mul(a, hn::Set(d, -2.0f)));
    const V outer = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    V q = hn::MulAdd(square, hn::Set(d, -5.700231e-3f), hn::Set(d, 2.0634998e-2f));
    q = hn::MulAdd(q, square, hn::Set(d, -5.3738516e-2f));
    q = hn::MulAdd(q, square, hn::Set(d, 0.13331428f));
    q = hn::MulAdd(q, square, hn::Set(d, -0.3333328f));
    const V inner = hn::MulAdd(hn::Mul(square, q), x, x);
    return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), inner, outer);
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle

// The functions of one array and their backward operators on float32 vectors. Included inside foreach_target files,
// like math.h.

#if defined(KAON_OPS_ELEMENTWISE_UNARY_VECTOR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_UNARY_VECTOR_H_
#undef KAON_OPS_ELEMENTWISE_UNARY_VECTOR_H_
#else
#define KAON_OPS_ELEMENTWISE_UNARY_VECTOR_H_
#endif

#include "hwy/highway.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

template <UnaryKind K>
struct UnaryVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    using U = UnaryKind;
    if constexpr (K == U::identity || K == U::stop_gradient) return x;
    else if constexpr (K == U::zeros_like) return hn::Zero(d);
    else if constexpr (K == U::ones_like) return hn::Set(d, 1.0f);
    else if constexpr (K == U::logical_not) return hn::IfThenElseZero(hn::Eq(x, hn::Zero(d)), hn::Set(d, 1.0f));
    else if constexpr (K == U::relu) return vm::relu(d, x);
    else if constexpr (K == U::sigmoid) return vm::sigmoid(d, x);
    else if constexpr (K == U::tanh) return vm::tanh(d, x);
    else if constexpr (K == U::exp) return vm::exp(d, x);
    else if constexpr (K == U::log) return vm::log(d, x);
    else if constexpr (K == U::sqrt) return hn::Sqrt(x);
    else if constexpr (K == U::rsqrt) return vm::rsqrt(d, x);
    else if constexpr (K == U::square) return hn::Mul(x, x);
    else if constexpr (K == U::abs) return hn::Abs(x);
    else if constexpr (K == U::sign) {
      const V one = hn::CopySign(hn::Set(d, 1.0f), x);
      return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Zero(d)), one, x);  // 0 and NaN give themselves
    } else if constexpr (K == U::negative) return hn::Neg(x);
    else if constexpr (K == U::reciprocal) return hn::Div(hn::Set(d, 1.0f), x);
    else if constexpr (K == U::erf) return vm::erf(d, x);
    else if constexpr (K == U::log1p) return vm::log1p(d, x);
    else if constexpr (K == U::expm1) return vm::expm1(d, x);
    else if constexpr (K == U::log2) return vm::log2(d, x);
    else if constexpr (K == U::log10) return vm::log10(d, x);
    else if constexpr (K == U::sin) return vm::sin(d, x);
    else if constexpr (K == U::cos) return vm::cos(d, x);
    else if constexpr (K == U::arcsin) return vm::arcsin(d, x);
    else if constexpr (K == U::arccos) return vm::arccos(d, x);
    else if constexpr (K == U::arctan) return vm::arctan(d, x);
    else if constexpr (K == U::floor) return hn::Floor(x);
    else if constexpr (K == U::ceil) return hn::Ceil(x);
    else if constexpr (K == U::round) {  // halves away from zero
      const V a = hn::Abs(x), whole = hn::Trunc(a), half = hn::Set(d, 0.5f);
      const V up = hn::IfThenElseZero(hn::Ge(hn::Sub(a, whole), half), hn::Set(d, 1.0f));
      return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(hn::Add(whole, up), x));
    } else if constexpr (K == U::rint) {  // halves downwards
      const V below = hn::Floor(x);
      return hn::IfThenElse(hn::Le(hn::Sub(x, below), hn::Set(d, 0.5f)), below, hn::Ceil(x));
    } else if constexpr (K == U::trunc || K == U::fix) return hn::Trunc(x);
    else if constexpr (K == U::softsign) {
      const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
      const V r = hn::Div(x, hn::Add(one, a));
      return hn::IfThenElse(hn::Eq(a, hn::Set(d, vm::infinity)), hn::CopySign(one, x), r);
    } else if constexpr (K == U::softrelu) return vm::softrelu(d, x);
    else if constexpr (K == U::gelu) return vm::gelu(d, x);
    else if constexpr (K == U::degrees) return hn::Mul(x, hn::Set(d, 57.29577951308232f));
    else if constexpr (K == U::radians) return hn::Mul(x, hn::Set(d, 0.017453292519943295f));
  }
};

// head * derivative, from the head and the saved output (gelu: input).
template <UnaryBackwardKind K>
struct UnaryBackwardVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V head, V saved) const {
    const V one = hn::Set(d, 1.0f);
    if constexpr (K == UnaryBackwardKind::relu) {
      const V kept = hn::IfThenElseZero(hn::Gt(saved, hn::Zero(d)), head);
      return hn::IfThenElse(hn::IsNaN(saved), saved, kept);
    } else if constexpr (K == UnaryBackwardKind::sigmoid) {
      return hn::Mul(head, hn::Mul(saved, hn::Sub(one, saved)));
    } else if constexpr (K == UnaryBackwardKind::tanh) {
      return hn::Mul(head, hn::NegMulAdd(saved, saved, one));
    } else {
      return hn::Mul(head, vm::gelu_slope(d, saved));
    }
  }
};

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

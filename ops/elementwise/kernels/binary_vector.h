// The functions of two arrays, and of an array and a number, on float32 vectors. Included inside foreach_target
// files, like math.h. Not for mod: math/remainder-inl.h has it.

#if defined(KAON_OPS_ELEMENTWISE_BINARY_VECTOR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_BINARY_VECTOR_H_
#undef KAON_OPS_ELEMENTWISE_BINARY_VECTOR_H_
#else
#define KAON_OPS_ELEMENTWISE_BINARY_VECTOR_H_
#endif

#include "hwy/highway.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

template <BinaryKind K>
struct BinaryVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    using B = BinaryKind;
    const V zero = hn::Zero(d);
    const auto truth = [&](auto mask) HWY_ATTR { return hn::IfThenElseZero(mask, hn::Set(d, 1.0f)); };
    if constexpr (K == B::add) return hn::Add(a, b);
    else if constexpr (K == B::sub) return hn::Sub(a, b);
    else if constexpr (K == B::mul) return hn::Mul(a, b);
    else if constexpr (K == B::div) return hn::Div(a, b);
    else if constexpr (K == B::power) return vm::pow(d, a, b);
    else if constexpr (K == B::hypot) return vm::hypot(d, a, b);
    else if constexpr (K == B::logaddexp) return vm::logaddexp(d, a, b);
    else if constexpr (K == B::maximum) return vm::maximum(a, b);
    else if constexpr (K == B::minimum) return vm::minimum(a, b);
    else if constexpr (K == B::equal) return truth(hn::Eq(a, b));
    else if constexpr (K == B::not_equal) return truth(vm::not_equal(a, b));
    else if constexpr (K == B::greater) return truth(hn::Gt(a, b));
    else if constexpr (K == B::greater_equal) return truth(hn::Ge(a, b));
    else if constexpr (K == B::lesser) return truth(hn::Lt(a, b));
    else if constexpr (K == B::lesser_equal) return truth(hn::Le(a, b));
    else if constexpr (K == B::logical_and) return truth(hn::And(vm::not_equal(a, zero), vm::not_equal(b, zero)));
    else if constexpr (K == B::logical_or) return truth(hn::Or(vm::not_equal(a, zero), vm::not_equal(b, zero)));
    else return truth(hn::Xor(vm::not_equal(a, zero), vm::not_equal(b, zero)));
  }
};

template <BinaryKind K, bool reversed>
struct ScalarVector {
  float scalar;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V s = hn::Set(d, scalar);
    if constexpr (reversed) {
      return BinaryVector<K>{}(d, s, x);
    } else {
      return BinaryVector<K>{}(d, x, s);
    }
  }
};

struct SmoothL1Vector {
  float scalar;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V s2 = hn::Set(d, scalar * scalar), half = hn::Set(d, 0.5f), a = hn::Abs(x);
    const V outside = hn::Sub(a, hn::Set(d, 0.5f / (scalar * scalar)));
    return hn::IfThenElse(hn::Lt(hn::Mul(a, s2), hn::Set(d, 1.0f)), hn::Mul(half, hn::Mul(s2, hn::Mul(x, x))), outside);
  }
};

struct SquareVector {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Mul(x, x);
  }
};

// pow(x, 0.5): the square root, but +0 at -0 and inf at -inf.
struct RootVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V inf = hn::Set(d, vm::infinity);
    return hn::IfThenElse(hn::Eq(x, hn::Neg(inf)), inf, hn::Sqrt(hn::Add(x, hn::Zero(d))));
  }
};

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

// where, clip and its backward operator on float32 vectors. Included inside foreach_target files, like math.h.

#if defined(KAON_OPS_ELEMENTWISE_SELECT_VECTOR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_SELECT_VECTOR_H_
#undef KAON_OPS_ELEMENTWISE_SELECT_VECTOR_H_
#else
#define KAON_OPS_ELEMENTWISE_SELECT_VECTOR_H_
#endif

#include "hwy/highway.h"
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

struct WhereVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V condition, V x, V y) const {
    return hn::IfThenElse(vm::not_equal(condition, hn::Zero(d)), x, y);
  }
};

struct ClipVector {
  float low, high;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V lo = hn::Set(d, low), hi = hn::Set(d, high);
    return hn::IfThenElse(hn::Lt(x, lo), lo, hn::IfThenElse(hn::Gt(x, hi), hi, x));
  }
};

struct ClipBackwardVector {
  float low, high;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V head, V x) const {
    return hn::IfThenZeroElse(hn::Or(hn::Lt(x, hn::Set(d, low)), hn::Gt(x, hn::Set(d, high))), head);
  }
};

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

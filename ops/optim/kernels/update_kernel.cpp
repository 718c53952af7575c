#include "kaon/ops/optim/kernels/update_kernel.h"

#include <limits>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/optim/kernels/update_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// One vector of each array, updated in registers.
template <class D>
struct Values {
  hn::Vec<D> weight, grad, a, b;
};

// The constants of a rule for one tensor.
template <class D>
struct Step {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  UpdateKind kind;
  bool clips;
  V rescale, clip, lr, wd, keep, momentum, lr_wd, beta1, rest1, beta2, rest2, epsilon;

  Step(D d, const UpdateRule& r, const UpdateTensor& t) : kind(r.kind), clips(r.clip >= 0) {
    const auto set = [&](double v) HWY_ATTR { return hn::Set(d, T(v)); };
    rescale = set(r.rescale), clip = set(r.clip), lr = set(t.lr), wd = set(t.wd);
    keep = set(1 - t.lr * t.wd), lr_wd = set(t.lr * t.wd), momentum = set(r.momentum);
    beta1 = set(r.beta1), rest1 = set(1 - r.beta1), beta2 = set(r.beta2), rest2 = set(1 - r.beta2);
    epsilon = set(r.epsilon);
  }

  HWY_INLINE V clipped(V g) const {
    if (!clips) return g;
    const V inside = hn::Max(hn::Min(g, clip), hn::Neg(clip));
    return hn::IfThenElse(hn::IsNaN(g), g, inside);
  }

  // The state with denormal numbers, to which it may decay, as zeros.
  HWY_INLINE V without_denormals(V state) const {
    const V least = hn::Set(D(), std::numeric_limits<T>::min());
    return hn::IfThenElse(hn::Lt(hn::Abs(state), least), hn::Zero(D()), state);  // NaN stays
  }

  HWY_INLINE void apply(Values<D>& v) const {
    if (kind == UpdateKind::sgd) {
      v.weight = hn::NegMulAdd(lr, clipped(hn::Mul(v.grad, rescale)), hn::Mul(keep, v.weight));
    } else if (kind == UpdateKind::sgd_momentum) {
      const V decayed = hn::NegMulAdd(lr_wd, v.weight, hn::Mul(momentum, v.a));
      v.a = without_denormals(hn::NegMulAdd(lr, clipped(hn::Mul(v.grad, rescale)), decayed));
      v.weight = hn::Add(v.weight, v.a);
    } else {
      const V g = clipped(hn::MulAdd(wd, v.weight, hn::Mul(v.grad, rescale)));
      v.a = without_denormals(hn::MulAdd(beta1, v.a, hn::Mul(rest1, g)));
      v.b = without_denormals(hn::MulAdd(beta2, v.b, hn::Mul(rest2, hn::Mul(g, g))));
      v.weight = hn::Sub(v.weight, hn::Div(hn::Mul(lr, v.a), hn::Add(hn::Sqrt(v.b), epsilon)));
    }
  }
};

template <class T, UpdateKind kind>
void update(const UpdateRule& rule, const UpdateTensor& t, int64_t begin, int64_t end) {
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const Step<Lane<T>> step(d, rule, t);
  T *w = static_cast<T*>(t.arrays[0]), *a = static_cast<T*>(t.arrays[2]), *b = static_cast<T*>(t.arrays[3]);
  const T* g = static_cast<const T*>(t.arrays[1]);
  constexpr bool has_a = kind != UpdateKind::sgd, has_b = kind == UpdateKind::adam;
  int64_t i = begin;
  Values<Lane<T>> v{};
  for (; i + lanes <= end; i += lanes) {
    v.weight = load(d, w + i), v.grad = load(d, g + i);
    if constexpr (has_a) v.a = load(d, a + i);
    if constexpr (has_b) v.b = load(d, b + i);
    step.apply(v);
    store(d, v.weight, w + i);
    if constexpr (has_a) store(d, v.a, a + i);
    if constexpr (has_b) store(d, v.b, b + i);
  }
  if (i == end) return;
  const size_t rest = size_t(end - i);
  v.weight = load_n(d, w + i, rest), v.grad = load_n(d, g + i, rest);
  if constexpr (has_a) v.a = load_n(d, a + i, rest);
  if constexpr (has_b) v.b = load_n(d, b + i, rest);
  step.apply(v);
  store_n(d, v.weight, w + i, rest);
  if constexpr (has_a) store_n(d, v.a, a + i, rest);
  if constexpr (has_b) store_n(d, v.b, b + i, rest);
}

void UpdateRange(const UpdateRule& rule, const UpdateTensor& t, int64_t begin, int64_t end) {
  dispatch_float("update", t.dtype, [&]<class T>() {
    switch (rule.kind) {
      case UpdateKind::sgd: return update<T, UpdateKind::sgd>(rule, t, begin, end);
      case UpdateKind::sgd_momentum: return update<T, UpdateKind::sgd_momentum>(rule, t, begin, end);
      case UpdateKind::adam: return update<T, UpdateKind::adam>(rule, t, begin, end);
    }
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(UpdateRange);

void update_range(const UpdateRule& rule, const UpdateTensor& tensor, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(UpdateRange)(rule, tensor, begin, end);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

// The float32 tiles of the unary functions and of their backward operators, per instruction set.
#include "kaon/ops/elementwise/kernels/unary_kernels.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/math/scalar_math.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/elementwise/kernels/unary_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/gamma_vector.h"
#include "kaon/ops/elementwise/kernels/tile_loop.h"
#include "kaon/ops/elementwise/kernels/unary_vector.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

// No vector form: rare, and the scalar functions are exact.
constexpr bool is_scalar(UnaryKind k) {
  using U = UnaryKind;
  return (k >= U::sinh && k <= U::arctanh) || k == U::cbrt || k == U::rcbrt || k == U::gamma;
}

// In double precision, since the cosine may be close to 0; arguments far from 0 one by one.
void TanTile(const float* x, float* y, size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float in[hn::MaxLanes(d)] = {}, out[hn::MaxLanes(d)];
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = HWY_MIN(lanes, n - i);
    if (count < lanes) std::memcpy(in, x + i, count * sizeof(float));
    const auto v = hn::LoadU(narrow, count < lanes ? in : x + i);
    const auto wide = hn::PromoteTo(d, v);
    const auto ratio = vm::rounded(narrow, hn::Div(hn::Sin(d, wide), hn::Cos(d, wide)));
    const auto result = hn::IfThenElse(hn::Eq(v, hn::Zero(narrow)), v, ratio);  // -0 too
    const auto is_near = hn::Lt(hn::Abs(v), hn::Set(narrow, 1e4f));
    if (HWY_LIKELY(count == lanes && hn::AllTrue(narrow, is_near))) {
      hn::StoreU(result, narrow, y + i);
      continue;
    }
    hn::Store(result, narrow, out);
    for (size_t k = 0; k < count; ++k) y[i + k] = std::fabs(x[i + k]) < 1e4f ? out[k] : std::tan(x[i + k]);
  }
}

// The quantile of the normal distribution at (1 + x) / 2, over sqrt(2): AS 241 (Wichura 1988), whose rational functions
// have a relative error of 1e-16. Its third one is for x that float32 does not reach.
struct Erfinv {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    static constexpr double middle_over[] = {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                                             4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                                             1.3314166789178437745e2, 3.3871328727963666080};
    static constexpr double middle_under[] = {
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
    static constexpr double end_over[] = {
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
        3.64784832476320460504,    5.76949722146069140550,    4.63033784615654529590,    1.42343711074968357734};
    static constexpr double end_under[] = {
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940,    2.05319162663775882187,    1.0};
    const V half = hn::Set(d, 0.5), q = hn::Mul(x, half), size = hn::Abs(x);
    const V r = hn::NegMulAdd(q, q, hn::Set(d, 0.180625));
    V y = hn::Div(hn::Mul(q, Polynomial(d, r, middle_over)), Polynomial(d, r, middle_under));
    const auto is_middle = hn::Le(size, hn::Set(d, 0.85));
    if (!hn::AllTrue(d, is_middle)) {
      const V one = hn::Set(d, 1.0), tail = hn::Mul(hn::Sub(one, size), half);
      const V t = hn::Sub(hn::Sqrt(hn::Neg(hn::Log(d, tail))), hn::Set(d, 1.6));
      const V end = hn::Div(Polynomial(d, t, end_over), Polynomial(d, t, end_under));
      const V beyond = hn::IfThenElse(hn::Eq(size, one), hn::Inf(d), hn::NaN(d));
      const V far = hn::CopySign(hn::IfThenElse(hn::Lt(size, one), end, beyond), x);
      y = hn::IfThenElse(is_middle, y, far);
    }
    return hn::Mul(y, hn::Set(d, 0.70710678118654752440));
  }
};

// y = f(x) in double precision.
template <class F>
HWY_INLINE void WideTile(const float* x, float* y, size_t n, const F& f) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto of = [&](const float* from)
                      HWY_ATTR { return vm::rounded(narrow, f(d, hn::PromoteTo(d, hn::LoadU(narrow, from)))); };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(of(x + i), narrow, y + i);
  if (i == n) return;
  HWY_ALIGN float rest[hn::MaxLanes(d)] = {};
  std::memcpy(rest, x + i, (n - i) * sizeof(float));
  hn::Store(of(rest), narrow, rest);
  std::memcpy(y + i, rest, (n - i) * sizeof(float));
}

struct HardSigmoidVector {
  float alpha, beta;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V y = hn::Add(hn::Mul(x, hn::Set(d, alpha)), hn::Set(d, beta)), zero = hn::Zero(d), one = hn::Set(d, 1.0f);
    return hn::IfThenElse(hn::Lt(y, zero), zero, hn::IfThenElse(hn::Gt(y, one), one, y));
  }
};

void HardSigmoid(const float* x, float* y, size_t n, float alpha, float beta) {
  vm::tile_loop<1>(&x, y, n, HardSigmoidVector{alpha, beta});
}

template <UnaryKind K>
void UnaryTile(const void*, const float* const* in, float* out, size_t n) {
  if constexpr (is_scalar(K)) {
    const float* x = in[0];
    for (size_t i = 0; i < n; ++i) out[i] = unary_value<K, float>(x[i]);
  } else if constexpr (K == UnaryKind::tan) {
    TanTile(in[0], out, n);
  } else if constexpr (K == UnaryKind::erfinv) {
    WideTile(in[0], out, n, Erfinv{});
  } else if constexpr (K == UnaryKind::gammaln) {
    WideTile(in[0], out, n, LogGamma{});
  } else if constexpr (K == UnaryKind::digamma) {
    WideTile(in[0], out, n, Digamma{});
  } else {
    vm::tile_loop<1>(in, out, n, UnaryVector<K>{});
  }
}

template <UnaryBackwardKind K>
void UnaryBackwardTile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<2>(in, out, n, UnaryBackwardVector<K>{});
}

template <size_t... I>
constexpr std::array<TileFn, sizeof...(I)> MakeUnary(std::index_sequence<I...>) {
  return {&UnaryTile<UnaryKind(I)>...};
}
template <size_t... I>
constexpr std::array<TileFn, sizeof...(I)> MakeBackward(std::index_sequence<I...>) {
  return {&UnaryBackwardTile<UnaryBackwardKind(I)>...};
}

const TileFn* UnaryTiles() {
  static constexpr auto tiles = MakeUnary(std::make_index_sequence<size_t(unary_kinds)>());
  return tiles.data();
}
const TileFn* UnaryBackwardTiles() {
  static constexpr auto tiles = MakeBackward(std::make_index_sequence<size_t(unary_backward_kinds)>());
  return tiles.data();
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {

HWY_EXPORT(UnaryTiles);
HWY_EXPORT(UnaryBackwardTiles);
HWY_EXPORT(HardSigmoid);

template <UnaryKind K, class T>
void typed_unary(const void*, const void* const* in, void* out, size_t n) {
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) y[i] = unary_value<K, T>(x[i]);
}

// Whether the result of integers has the same bits for signed and unsigned ones.
constexpr bool ignores_sign(UnaryKind k) {
  using U = UnaryKind;
  return k == U::identity || k == U::stop_gradient || k == U::zeros_like || k == U::ones_like || k == U::logical_not ||
         k == U::square || k == U::negative;
}

template <UnaryKind K>
PointwiseKernels make_unary(const TileFn* tiles) {
  PointwiseKernels k;
  k.float32 = tiles[size_t(K)];
  k.float64 = &typed_unary<K, double>;
  if constexpr (info(K).domain != Domain::floating) {
    k.set_integers<ignores_sign(K)>([]<class T>() -> TypedFn { return &typed_unary<K, T>; });
  }
  if constexpr (info(K).domain == Domain::any) k.boolean() = &typed_unary<K, bool>;
  return k;
}

template <UnaryBackwardKind K>
void double_backward(const void*, const void* const* in, void* out, size_t n) {
  const double* head = static_cast<const double*>(in[0]);
  const double* saved = static_cast<const double*>(in[1]);
  double* y = static_cast<double*>(out);
  for (size_t i = 0; i < n; ++i) y[i] = unary_backward_value<K>(head[i], saved[i]);
}

}  // namespace

const PointwiseKernels& unary_kernels(UnaryKind kind) {
  using Table = std::array<PointwiseKernels, size_t(unary_kinds)>;
  static constinit MadeOnce<const Table> table;
  const auto make = []<size_t... I>(std::index_sequence<I...>) {
    const TileFn* tiles = HWY_DYNAMIC_DISPATCH(UnaryTiles)();
    return new Table{make_unary<UnaryKind(I)>(tiles)...};
  };
  return table.get([&] { return make(std::make_index_sequence<size_t(unary_kinds)>()); })[size_t(kind)];
}

void hard_sigmoid(const float* x, float* y, size_t n, float alpha, float beta) {
  HWY_DYNAMIC_DISPATCH(HardSigmoid)(x, y, n, alpha, beta);
}

const PointwiseKernels& unary_backward_kernels(UnaryBackwardKind kind) {
  using Table = std::array<PointwiseKernels, size_t(unary_backward_kinds)>;
  static constinit MadeOnce<const Table> table;
  const auto make = []<size_t... I>(std::index_sequence<I...>) {
    const TileFn* tiles = HWY_DYNAMIC_DISPATCH(UnaryBackwardTiles)();
    return new Table{PointwiseKernels{.float32 = tiles[I], .float64 = &double_backward<UnaryBackwardKind(I)>}...};
  };
  return table.get([&] { return make(std::make_index_sequence<size_t(unary_backward_kinds)>()); })[size_t(kind)];
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

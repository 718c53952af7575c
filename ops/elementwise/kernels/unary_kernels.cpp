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
#include "kaon/ops/elementwise/kernels/tile_loop.h"
#include "kaon/ops/elementwise/kernels/unary_vector.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

// No vector form: rare, and the scalar functions are exact.
constexpr bool is_scalar(UnaryKind k) {
  using U = UnaryKind;
  return (k >= U::sinh && k <= U::arctanh) || k == U::cbrt || k == U::rcbrt || (k >= U::gamma && k <= U::erfinv);
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
    const auto ratio = hn::DemoteTo(narrow, hn::Div(hn::Sin(d, wide), hn::Cos(d, wide)));
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

template <UnaryKind K>
void UnaryTile(const void*, const float* const* in, float* out, size_t n) {
  if constexpr (is_scalar(K)) {
    const float* x = in[0];
    for (size_t i = 0; i < n; ++i) out[i] = unary_value<K, float>(x[i]);
  } else if constexpr (K == UnaryKind::tan) {
    TanTile(in[0], out, n);
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

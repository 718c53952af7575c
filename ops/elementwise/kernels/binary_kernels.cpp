// The float32 tiles of the functions of two arrays and of an array and a number, per instruction set.
#include "kaon/ops/elementwise/kernels/binary_kernels.h"

#include <cmath>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/math/scalar_math.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/elementwise/kernels/binary_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/binary_vector.h"
#include "kaon/ops/elementwise/kernels/tile_loop.h"
#include "kaon/ops/math/remainder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

struct ModuloVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return modulo(d, a, b);
  }
};
template <bool reversed>
struct ModuloScalarVector {
  float scalar;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V s = hn::Set(d, scalar);
    return reversed ? modulo(d, s, x) : modulo(d, x, s);
  }
};

// The quotient or the remainder of int32, as binary_value and mod_value: double has the exact quotient's whole part,
// and the remainder.
template <bool remainder>
void DivideInt32(const int32_t* a, const int32_t* b, int32_t* y, size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<int32_t, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d), end = hn::Set(d, 2147483648.0);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto over = hn::PromoteTo(d, hn::LoadU(narrow, a + i)), under = hn::PromoteTo(d, hn::LoadU(narrow, b + i));
    const auto quotient = hn::Trunc(hn::Div(over, under));
    auto result = quotient;
    if constexpr (remainder) {
      const auto rest = hn::NegMulAdd(quotient, under, over);
      const auto has_other_sign = hn::Xor(hn::Lt(rest, zero), hn::Lt(under, zero));
      result = hn::IfThenElse(hn::And(hn::Not(hn::Eq(rest, zero)), has_other_sign), hn::Add(rest, under), rest);
    } else {
      result = hn::IfThenElse(hn::Eq(quotient, end), hn::Neg(end), quotient);  // the smallest number over -1 wraps
    }
    hn::StoreU(hn::DemoteTo(narrow, hn::IfThenZeroElse(hn::Eq(under, zero), result)), narrow, y + i);
  }
  for (; i < n; ++i) {
    y[i] = remainder ? binary_value<BinaryKind::mod>(a[i], b[i]) : binary_value<BinaryKind::div>(a[i], b[i]);
  }
}
void QuotientInt32(const int32_t* a, const int32_t* b, int32_t* y, size_t n) { DivideInt32<false>(a, b, y, n); }
void RemainderInt32(const int32_t* a, const int32_t* b, int32_t* y, size_t n) { DivideInt32<true>(a, b, y, n); }

// Loops over integers, which the compiler turns into vectors of each instruction set.
template <BinaryKind K, class T>
void IntegerTile(const void*, const void* const* in, void* out, size_t n) {
  const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) y[i] = binary_value<K, T>(a[i], b[i]);
}

// nullptr where vectors are of no use.
template <BinaryKind K, class T>
constexpr TypedFn integer_tile() {
  using B = BinaryKind;
  if constexpr (K == B::add || K == B::sub || K == B::mul || K == B::maximum || K == B::minimum || is_logical(K)) {
    return &IntegerTile<K, T>;
  }
  return nullptr;
}

using WholeTiles = std::array<TypedFn, 2>;  // of int32 and int64

template <BinaryKind K>
void BinaryTile(const void*, const float* const* in, float* out, size_t n) {
  if constexpr (K == BinaryKind::mod) {
    vm::tile_loop<2>(in, out, n, ModuloVector{});
  } else {
    vm::tile_loop<2>(in, out, n, BinaryVector<K>{});
  }
}

template <BinaryKind K, bool reversed>
void NumberTile(const void* number, const float* const* in, float* out, size_t n) {
  const float value = *static_cast<const float*>(number);
  if constexpr (K == BinaryKind::mod) {
    vm::tile_loop<1>(in, out, n, ModuloScalarVector<reversed>{value});
  } else {
    vm::tile_loop<1>(in, out, n, ScalarVector<K, reversed>{value});
  }
}

// The last vector of a row, which overlaps, is computed before the first is stored, so that the output may be the rows.
template <BinaryKind K, bool reversed>
void RowsWithNumbers(const NumberRows& r) {
  const hn::CappedTag<float, size_t(least_number_row)> d;
  const size_t lanes = hn::Lanes(d), length = size_t(r.length);
  for (int64_t i = 0; i < r.rows; ++i) {
    const ScalarVector<K, reversed> f{r.number[i * r.number_step]};
    const float* const x = r.row + i * r.row_step;
    float* const y = r.out + i * r.length;
    const auto end = f(d, hn::LoadU(d, x + length - lanes));
    for (size_t j = 0; j + lanes < length; j += lanes) hn::StoreU(f(d, hn::LoadU(d, x + j)), d, y + j);
    hn::StoreU(end, d, y + length - lanes);
  }
}

template <BinaryKind K, bool reversed>
constexpr NumberRowsFn rows_with_numbers() {
  using B = BinaryKind;
  if constexpr (K == B::add || K == B::sub || K == B::mul || K == B::div || K == B::maximum || K == B::minimum) {
    return &RowsWithNumbers<K, reversed>;
  }
  return nullptr;
}

template <ScalarKind K>
void ScalarTile(const void* attrs, const float* const* in, float* out, size_t n) {
  const float s = float(static_cast<const op::Scalar<K>*>(attrs)->scalar);
  if constexpr (K == ScalarKind::smooth_l1) {
    vm::tile_loop<1>(in, out, n, SmoothL1Vector{s});
  } else if constexpr (info(K).kind == BinaryKind::mod) {
    vm::tile_loop<1>(in, out, n, ModuloScalarVector<info(K).reversed>{s});
  } else {
    if constexpr (K == ScalarKind::power) {
      if (s == 2.0f) return vm::tile_loop<1>(in, out, n, SquareVector{});
      if (s == 0.5f) return vm::tile_loop<1>(in, out, n, RootVector{});
    }
    vm::tile_loop<1>(in, out, n, ScalarVector<info(K).kind, info(K).reversed>{s});
  }
}

template <size_t... I>
constexpr std::array<TileFn, sizeof...(I)> MakeBinary(std::index_sequence<I...>) {
  return {&BinaryTile<BinaryKind(I)>...};
}
template <size_t... I>
constexpr std::array<WholeTiles, sizeof...(I)> MakeWhole(std::index_sequence<I...>) {
  return {WholeTiles{integer_tile<BinaryKind(I), int32_t>(), integer_tile<BinaryKind(I), int64_t>()}...};
}
template <size_t... I>
constexpr std::array<NumberTiles, sizeof...(I)> MakeNumber(std::index_sequence<I...>) {
  return {NumberTiles{&NumberTile<BinaryKind(I), true>, &NumberTile<BinaryKind(I), false>,
                      rows_with_numbers<BinaryKind(I), true>(), rows_with_numbers<BinaryKind(I), false>()}...};
}
template <size_t... I>
constexpr std::array<TileFn, sizeof...(I)> MakeScalar(std::index_sequence<I...>) {
  return {&ScalarTile<ScalarKind(I)>...};
}

const TileFn* BinaryTiles() {
  static constexpr auto tiles = MakeBinary(std::make_index_sequence<size_t(binary_kinds)>());
  return tiles.data();
}
const WholeTiles* WholeTables() {
  static constexpr auto tiles = MakeWhole(std::make_index_sequence<size_t(binary_kinds)>());
  return tiles.data();
}
const NumberTiles* NumberTables() {
  static constexpr auto tiles = MakeNumber(std::make_index_sequence<size_t(binary_kinds)>());
  return tiles.data();
}
const TileFn* ScalarTiles() {
  static constexpr auto tiles = MakeScalar(std::make_index_sequence<size_t(scalar_kinds)>());
  return tiles.data();
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {

HWY_EXPORT(BinaryTiles);
HWY_EXPORT(WholeTables);
HWY_EXPORT(ScalarTiles);
HWY_EXPORT(NumberTables);
HWY_EXPORT(QuotientInt32);
HWY_EXPORT(RemainderInt32);

template <BinaryKind K, class T>
void typed_binary(const void*, const void* const* in, void* out, size_t n) {
  const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
  if constexpr (std::is_same_v<T, int32_t> && K == BinaryKind::div) {
    HWY_DYNAMIC_DISPATCH(QuotientInt32)(a, b, y, n);
  } else if constexpr (std::is_same_v<T, int32_t> && K == BinaryKind::mod) {
    HWY_DYNAMIC_DISPATCH(RemainderInt32)(a, b, y, n);
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = binary_value<K, T>(a[i], b[i]);
  }
}

// Whether the result of integers has the same bits for signed and unsigned ones.
constexpr bool ignores_sign(BinaryKind k) {
  using B = BinaryKind;
  return k == B::add || k == B::sub || k == B::mul || k == B::equal || k == B::not_equal || k == B::logical_and ||
         k == B::logical_or || k == B::logical_xor;
}

template <BinaryKind K>
PointwiseKernels make_binary(const TileFn* tiles, const std::array<TypedFn, 2>* whole_tiles) {
  PointwiseKernels k{.float32 = tiles[size_t(K)], .float64 = &typed_binary<K, double>};
  if constexpr (!is_real(K)) {
    const std::array<TypedFn, 2>& whole = whole_tiles[size_t(K)];
    k.set_integers<ignores_sign(K)>([&]<class T>() -> TypedFn {
      if (std::is_same_v<T, int32_t> && whole[0]) return whole[0];
      if (std::is_same_v<T, int64_t> && whole[1]) return whole[1];
      return &typed_binary<K, T>;
    });
  }
  if constexpr (is_logical(K)) k.boolean() = &typed_binary<K, bool>;
  return k;
}

template <ScalarKind K, class T>
void compare_integers(const ComparedNumber<T>& s, const T* x, T* y, size_t n) {
  using Integer = typename ComparedNumber<T>::Integer;
  constexpr BinaryKind kind = info(K).kind;
  if (s.is_integer) {
    for (size_t i = 0; i < n; ++i) y[i] = T(binary_value<kind, Integer>(Integer(x[i]), s.integer));
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = T(binary_value<kind, double>(double(x[i]), s.real));
  }
}

template <ScalarKind K, class T>
void typed_scalar(const void* attrs, const void* const* in, void* out, size_t n) {
  const double s = static_cast<const op::Scalar<K>*>(attrs)->scalar;
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  constexpr BinaryKind kind = info(K).kind;
  if constexpr (K == ScalarKind::smooth_l1) {
    for (size_t i = 0; i < n; ++i) y[i] = smooth_l1_value(x[i], T(s));
  } else if constexpr (!std::is_floating_point_v<T> && is_logical(kind)) {
    compare_integers<K>(ComparedNumber<T>(s), x, y, n);
  } else {
    const T v = scalar_operand<T>(kind, s);
    for (size_t i = 0; i < n; ++i) {
      y[i] = info(K).reversed ? binary_value<kind, T>(v, x[i]) : binary_value<kind, T>(x[i], v);
    }
  }
}

template <ScalarKind K>
PointwiseKernels make_scalar(const TileFn* tiles) {
  PointwiseKernels k{.float32 = tiles[size_t(K)], .float64 = &typed_scalar<K, double>};
  if constexpr (K != ScalarKind::smooth_l1) {
    k.set_integers([]<class T>() -> TypedFn { return &typed_scalar<K, T>; });
    if constexpr (is_logical(info(K).kind)) k.boolean() = &typed_scalar<K, bool>;
  }
  return k;
}

}  // namespace

const PointwiseKernels& binary_kernels(BinaryKind kind) {
  using Table = std::array<PointwiseKernels, size_t(binary_kinds)>;
  static constinit MadeOnce<const Table> table;
  const auto make = []<size_t... I>(std::index_sequence<I...>) {
    const TileFn* tiles = HWY_DYNAMIC_DISPATCH(BinaryTiles)();
    const auto* whole = HWY_DYNAMIC_DISPATCH(WholeTables)();
    return new Table{make_binary<BinaryKind(I)>(tiles, whole)...};
  };
  return table.get([&] { return make(std::make_index_sequence<size_t(binary_kinds)>()); })[size_t(kind)];
}

const NumberTiles& number_tiles(BinaryKind kind) { return HWY_DYNAMIC_DISPATCH(NumberTables)()[size_t(kind)]; }

const PointwiseKernels& scalar_kernels(ScalarKind kind) {
  using Table = std::array<PointwiseKernels, size_t(scalar_kinds)>;
  static constinit MadeOnce<const Table> table;
  const auto make = []<size_t... I>(std::index_sequence<I...>) {
    const TileFn* tiles = HWY_DYNAMIC_DISPATCH(ScalarTiles)();
    return new Table{make_scalar<ScalarKind(I)>(tiles)...};
  };
  return table.get([&] { return make(std::make_index_sequence<size_t(scalar_kinds)>()); })[size_t(kind)];
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

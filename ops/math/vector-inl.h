// Vectors over the floating dtypes, for kernels on Highway: loads widen 16-bit storage to float, stores
// round back to nearest even, and the loops handle tails. exp, log and the rest propagate NaN.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_VECTOR_INL_H_
#undef KAON_OPS_VECTOR_INL_H_
#else
#define KAON_OPS_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The vector that elements of type T are computed in.
template <class T>
using Lane = hn::ScalableTag<accumulate_t<T>>;

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, hn::TFromD<D>(value));
}

// Without the processor's conversions of float16, Highway's lose NaN and inf, and truncate: there, lanes are
// converted one at a time.
template <class T>
inline constexpr bool converts_by_lane = HWY_TARGET == HWY_SCALAR
                                             ? sizeof(T) == 2
                                             : std::is_same_v<T, float16> && !(HWY_TARGET <= HWY_AVX2);

template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* p) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::LoadU(d, p);
  } else if constexpr (converts_by_lane<T>) {
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = float(p[i]);
    return hn::Load(d, lanes);
  } else if constexpr (std::is_same_v<T, float16>) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
  } else {
    static_assert(std::is_same_v<T, bfloat16>);
    const hn::Rebind<uint16_t, D> half;
    const hn::Rebind<uint32_t, D> word;
    return hn::BitCast(d,
                       hn::ShiftLeft<16>(hn::PromoteTo(word, hn::LoadU(half, reinterpret_cast<const uint16_t*>(p)))));
  }
}

template <class D, class T>
HWY_INLINE void store(D d, hn::Vec<D> v, T* p) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    hn::StoreU(v, d, p);
  } else if constexpr (converts_by_lane<T>) {
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) p[i] = T(lanes[i]);
  } else if constexpr (std::is_same_v<T, float16>) {
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
  } else {
    static_assert(std::is_same_v<T, bfloat16>);
    const hn::Rebind<uint16_t, D> half;
    const hn::Rebind<uint32_t, D> word;
    const hn::Rebind<int32_t, D> signed_word;
    const auto bits = hn::BitCast(word, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(word, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(word, 0x7fff))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(word, 0x40));
    const auto nan = hn::RebindMask(word, hn::IsNaN(v));
    const auto result = hn::BitCast(signed_word, hn::IfThenElse(nan, quiet, rounded));
    hn::StoreU(hn::DemoteTo(half, result), half, reinterpret_cast<uint16_t*>(p));
  }
}

// Masked moves touch no memory outside the mask and take any address on these instruction sets.
template <class D, class T>
inline constexpr bool has_masked_moves =
    (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3) && std::is_same_v<T, hn::TFromD<D>>;

// Loads the first n lanes; the others are zero.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_n(D d, const T* p, size_t n) {
  if constexpr (has_masked_moves<D, T>) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(d)];
    memset(static_cast<void*>(buffer), 0, sizeof(buffer));
    memcpy(static_cast<void*>(buffer), p, n * sizeof(T));
    return load(d, buffer);
  }
}

template <class D, class T>
HWY_INLINE void store_n(D d, hn::Vec<D> v, T* p, size_t n) {
  if constexpr (has_masked_moves<D, T>) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(d)];
    store(d, v, buffer);
    memcpy(static_cast<void*>(p), buffer, n * sizeof(T));
  }
}

// out[i] = f(d, in[i]...) for n elements. `out` may be one of the inputs.
template <class T, class F, class... In>
HWY_INLINE void map(size_t n, T* out, F f, const In*... in) {
  const Lane<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(d, f(d, load(d, in + i)...), out + i);
  if (i < n) store_n(d, f(d, load_n(d, in + i, n - i)...), out + i, n - i);
}

// Functions of one argument for both widths: float32 from the elementwise vocabulary, float64 lane by lane.
template <class D, class V, class F>
HWY_INLINE V by_lane(D d, V x, F f) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}

#define KAON_VECTOR_FUNCTION(name, scalar)                   \
  template <class D, class V>                                \
  HWY_INLINE V name(D d, V x) {                              \
    if constexpr (sizeof(hn::TFromD<D>) == 4) {              \
      return kaon::ops::math::HWY_NAMESPACE::name(d, x);     \
    } else {                                                 \
      return by_lane(d, x, [](double v) { return scalar; }); \
    }                                                        \
  }
KAON_VECTOR_FUNCTION(exp, std::exp(v))
KAON_VECTOR_FUNCTION(exp_below, std::exp(v))
KAON_VECTOR_FUNCTION(expm1, std::expm1(v))
KAON_VECTOR_FUNCTION(log, std::log(v))
KAON_VECTOR_FUNCTION(log1p, std::log1p(v))
KAON_VECTOR_FUNCTION(tanh, std::tanh(v))
KAON_VECTOR_FUNCTION(sigmoid, 1 / (1 + std::exp(-v)))
KAON_VECTOR_FUNCTION(softrelu, (v > 0 ? v : v < 0 ? 0 : v) + std::log1p(std::exp(-std::fabs(v))))
KAON_VECTOR_FUNCTION(gelu, v < -40 ? 0 : v * 0.5 * std::erfc(-v * 0.70710678118654752440))
KAON_VECTOR_FUNCTION(gelu_slope, 0.5 * std::erfc(-v * 0.70710678118654752440) +
                                     (std::fabs(v) > 40 ? 0 : v * 0.39894228040143267794 * std::exp(-0.5 * v * v)))
#undef KAON_VECTOR_FUNCTION

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle

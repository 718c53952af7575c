// The float32 tiles of arctan2 and fmod per instruction set; loops for the others.
#include "kaon/ops/numeric/kernels/real_kernels.h"

#include <bit>

#include "kaon/ops/numeric/kernels/real_value.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/numeric/kernels/real_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/tile_loop.h"
#include "kaon/ops/math/math.h"
#include "kaon/ops/math/remainder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

// The angle of the smaller to the larger of |x| and |y|, moved to its octant. 4 ulp.
struct Arctan2Vector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    const V a = hn::Abs(y), b = hn::Abs(x), small = hn::Min(a, b), large = hn::Max(a, b);
    V ratio = hn::Div(small, large);
    ratio = hn::IfThenElse(hn::Eq(small, large), hn::Set(d, 1.0f), ratio);  // infinities
    ratio = hn::IfThenElse(hn::Eq(small, hn::Zero(d)), hn::Zero(d), ratio);
    V angle = hn::Atan(d, ratio);
    angle = hn::IfThenElse(hn::Gt(a, b), hn::Sub(hn::Set(d, 1.57079632679489662f), angle), angle);
    const auto is_left = hn::Lt(hn::CopySign(hn::Set(d, 1.0f), x), hn::Zero(d));
    angle = hn::IfThenElse(is_left, hn::Sub(hn::Set(d, 3.14159265358979324f), angle), angle);
    const V result = hn::CopySignToAbs(hn::Abs(angle), y);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), result);
  }
};

void Arctan2Tile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<2>(in, out, n, Arctan2Vector{});
}

struct FmodVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return fmod(d, a, b);
  }
};

struct NanVector {
  const NanReplacement<float>& by;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V inf = hn::Inf(d);
    V y = hn::IfThenElse(hn::Eq(x, inf), hn::Set(d, by.infinity), x);
    y = hn::IfThenElse(hn::Eq(x, hn::Neg(inf)), hn::Set(d, by.minus_infinity), y);
    return hn::IfThenElse(hn::IsNaN(x), hn::Set(d, by.nan), y);
  }
};

void ReplaceNan(const NanReplacement<float>& by, const float* from, float* to, size_t n) {
  vm::tile_loop<1>(&from, to, n, NanVector{by});
}

void FmodTile(const void*, const float* const* in, float* out, size_t n) { vm::tile_loop<2>(in, out, n, FmodVector{}); }

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {

HWY_EXPORT(Arctan2Tile);
HWY_EXPORT(FmodTile);
HWY_EXPORT(ReplaceNan);

// x 2^e: whole exponents make the factor themselves.
float scaled(float x, float e) {
  const bool is_whole = e >= -1000.0f && e <= 1000.0f && float(int(e)) == e;
  return is_whole ? float(double(x) * std::bit_cast<double>(uint64_t(int(e) + 1023) << 52))
                  : real_value<RealKind::ldexp>(x, e);
}

template <RealKind K>
void tile(const void* attrs, const float* const* in, float* out, size_t n) {
  if constexpr (K == RealKind::arctan2) {
    HWY_DYNAMIC_DISPATCH(Arctan2Tile)(attrs, in, out, n);
  } else if constexpr (K == RealKind::fmod) {
    HWY_DYNAMIC_DISPATCH(FmodTile)(attrs, in, out, n);
  } else {
    const float *a = in[0], *b = in[1];
    for (size_t i = 0; i < n; ++i) {
      if constexpr (K == RealKind::ldexp) out[i] = scaled(a[i], b[i]);
      else out[i] = real_value<K>(a[i], b[i]);
    }
  }
}

template <RealKind K, class T>
void typed(const void*, const void* const* in, void* out, size_t n) {
  const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  for (size_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = real_value<K>(a[i], b[i]);
}

template <RealKind K>
constexpr PointwiseKernels make_kernels() {
  PointwiseKernels k{.float32 = &tile<K>, .float64 = &typed<K, double>};
  if constexpr (takes_integers(K)) k.set_integers([]<class T>() -> TypedFn { return &typed<K, T>; });
  return k;
}

template <RealKind K>
constexpr PointwiseKernels kernels_of = make_kernels<K>();

}  // namespace

void replace_nan(const NanReplacement<float>& replacement, const float* from, float* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(ReplaceNan)(replacement, from, to, n);
}

const PointwiseKernels& real_kernels(RealKind kind) {
  switch (kind) {
    case RealKind::arctan2: return kernels_of<RealKind::arctan2>;
    case RealKind::copysign: return kernels_of<RealKind::copysign>;
    case RealKind::fmod: return kernels_of<RealKind::fmod>;
    case RealKind::fmax: return kernels_of<RealKind::fmax>;
    case RealKind::fmin: return kernels_of<RealKind::fmin>;
    default: return kernels_of<RealKind::ldexp>;
  }
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

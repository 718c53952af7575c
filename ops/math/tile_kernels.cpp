// Streamed copies, the conversions of 16-bit floats and sums in double, per instruction set.
#include <cstdint>
#include <cstring>

#include "kaon/ops/dtype.h"
#include "kaon/ops/math/tile.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/math/tile_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void StreamCopy(float* to, const float* from, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  while (i < n && (reinterpret_cast<uintptr_t>(to + i) % (lanes * sizeof(float))) != 0) to[i] = from[i], ++i;
  for (; i + lanes <= n; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  for (; i < n; ++i) to[i] = from[i];
}

// Highway's own float16 conversions truncate where the processor has none (SSE2): there the scalar type converts.
void FromFloat16(const void* from, float* to, size_t n) {
  const float16* p = static_cast<const float16*>(from);
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto* h = static_cast<const hwy::float16_t*>(from);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, h + i)), d, to + i);
#endif
  for (; i < n; ++i) to[i] = float(p[i]);
}

void ToFloat16(const float* from, void* to, size_t n) {
  float16* p = static_cast<float16*>(to);
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  auto* h = static_cast<hwy::float16_t*>(to);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh, h + i);
#endif
  for (; i < n; ++i) p[i] = float16(from[i]);
}

void FromBfloat16(const void* from, float* to, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto* p = static_cast<const uint16_t*>(from);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, p + i)))), d, to + i);
  }
  for (; i < n; ++i) {
    const uint32_t bits = uint32_t(p[i]) << 16;
    std::memcpy(to + i, &bits, 4);
  }
}

void ToBfloat16(const float* from, void* to, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const hn::RebindToSigned<decltype(d)> di;
  auto* p = static_cast<uint16_t*>(to);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, from + i);
    const auto u = hn::BitCast(du, x);
    const auto high = hn::ShiftRight<16>(u);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(du, 0x7fff))));
    const auto quiet = hn::Or(high, hn::Set(du, 0x40));
    const auto bits = hn::BitCast(du, hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, quiet), hn::BitCast(d, rounded)));
    // DemoteTo saturates from signed numbers: all fit after the sign is spread
    const auto spread = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(di, bits)));
    const hn::Rebind<int16_t, decltype(d)> dhi;
    hn::StoreU(hn::BitCast(dh, hn::DemoteTo(dhi, spread)), dh, p + i);
  }
  for (; i < n; ++i) p[i] = bfloat16(from[i]).bits;
}

// Widens a float vector to double in two halves and calls f(dd, half, index of its first lane).
template <class D, class F>
HWY_INLINE void InHalves([[maybe_unused]] D d, hn::Vec<D> v, const F& f) {
#if HWY_TARGET == HWY_SCALAR
  const hn::Rebind<double, D> dd;
  f(dd, hn::PromoteTo(dd, v), 0);
#else
  const hn::Half<D> dh;
  const hn::RepartitionToWide<D> dd;
  f(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, v)), 0);
  f(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, v)), hn::Lanes(dd));
#endif
}

double SumFloats(const float* from, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<double> dd;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(dd), s1 = hn::Zero(dd), s2 = hn::Zero(dd), s3 = hn::Zero(dd);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    InHalves(d, hn::LoadU(d, from + i),
             [&](auto, auto h, size_t at) HWY_ATTR { at == 0 ? s0 = hn::Add(s0, h) : s1 = hn::Add(s1, h); });
    InHalves(d, hn::LoadU(d, from + i + lanes),
             [&](auto, auto h, size_t at) HWY_ATTR { at == 0 ? s2 = hn::Add(s2, h) : s3 = hn::Add(s3, h); });
  }
  double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += double(from[i]);
  return sum;
}

void AddFloats(const float* from, double* sums, size_t n) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    InHalves(d, hn::LoadU(d, from + i), [&](auto dd, auto h, size_t at) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(dd, sums + i + at), h), dd, sums + i + at);
    });
  }
  for (; i < n; ++i) sums[i] += double(from[i]);
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(StreamCopy);
HWY_EXPORT(FromFloat16);
HWY_EXPORT(ToFloat16);
HWY_EXPORT(FromBfloat16);
HWY_EXPORT(ToBfloat16);
HWY_EXPORT(SumFloats);
HWY_EXPORT(AddFloats);

void stream_copy(float* to, const float* from, size_t n) { HWY_DYNAMIC_DISPATCH(StreamCopy)(to, from, n); }
void stream_flush() { hwy::FlushStream(); }
void float16_to_float32(const void* from, float* to, size_t n) { HWY_DYNAMIC_DISPATCH(FromFloat16)(from, to, n); }
void float32_to_float16(const float* from, void* to, size_t n) { HWY_DYNAMIC_DISPATCH(ToFloat16)(from, to, n); }
void bfloat16_to_float32(const void* from, float* to, size_t n) { HWY_DYNAMIC_DISPATCH(FromBfloat16)(from, to, n); }
void float32_to_bfloat16(const float* from, void* to, size_t n) { HWY_DYNAMIC_DISPATCH(ToBfloat16)(from, to, n); }
double sum_floats(const float* from, size_t n) { return HWY_DYNAMIC_DISPATCH(SumFloats)(from, n); }
void add_floats(const float* from, double* sums, size_t n) { HWY_DYNAMIC_DISPATCH(AddFloats)(from, sums, n); }

}  // namespace kaon::ops
#endif  // HWY_ONCE

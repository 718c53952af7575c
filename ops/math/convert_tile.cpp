// The conversions per instruction set.
#include "kaon/ops/math/convert_tile.h"

#include "kaon/ops/math/convert.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/math/convert_tile.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void FromUint8(const uint8_t* from, float* to, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> db;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(db, from + i))), d, to + i);
  }
  for (; i < n; ++i) to[i] = float(from[i]);
}

namespace {

// Vectors of numbers that int32 holds, by store(their whole parts, to); others one by one.
template <class T, class Store>
HWY_INLINE void ToWhole(const float* from, T* to, size_t n, const Store& store) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, from + i);
    const auto is_in_range = hn::And(hn::Ge(x, hn::Set(d, -2147483648.0f)), hn::Lt(x, hn::Set(d, 2147483648.0f)));
    if (HWY_LIKELY(hn::AllTrue(d, is_in_range))) {
      store(di, hn::ConvertTo(di, x), to + i);
    } else {
      for (size_t k = i; k < i + lanes; ++k) to[k] = convert<T>(from[k]);
    }
  }
  for (; i < n; ++i) to[i] = convert<T>(from[i]);
}

}  // namespace

void ToInt32(const float* from, int32_t* to, size_t n) {
  ToWhole(from, to, n, [](auto di, auto whole, int32_t* at) HWY_ATTR { hn::StoreU(whole, di, at); });
}
void ToInt8(const float* from, int8_t* to, size_t n) {
  ToWhole(from, to, n, [](auto di, auto whole, int8_t* at) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(di)> du;
    const auto low = hn::And(hn::BitCast(du, whole), hn::Set(du, 255));
    hn::StoreU(hn::U8FromU32(low), hn::Rebind<uint8_t, decltype(di)>(), reinterpret_cast<uint8_t*>(at));
  });
}

namespace {

// The compiler makes vectors of this.
template <class From, class To>
void Plainly(const void* from, void* to, size_t n) {
  const From* const x = static_cast<const From*>(from);
  To* const y = static_cast<To*>(to);
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
}

}  // namespace

void ConvertPlainly(PlainConversion kind, const void* from, void* to, size_t n) {
  switch (kind) {
    case PlainConversion::float32_to_float64: return Plainly<float, double>(from, to, n);
    case PlainConversion::float64_to_float32: return Plainly<double, float>(from, to, n);
    case PlainConversion::int32_to_float32: return Plainly<int32_t, float>(from, to, n);
    case PlainConversion::int32_to_float64: return Plainly<int32_t, double>(from, to, n);
    case PlainConversion::int32_to_int64: return Plainly<int32_t, int64_t>(from, to, n);
    default: return Plainly<int64_t, int32_t>(from, to, n);
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(FromUint8);
HWY_EXPORT(ToInt32);
HWY_EXPORT(ToInt8);
HWY_EXPORT(ConvertPlainly);

void uint8_to_float32(const uint8_t* from, float* to, size_t n) { HWY_DYNAMIC_DISPATCH(FromUint8)(from, to, n); }
void float32_to_int32(const float* from, int32_t* to, size_t n) { HWY_DYNAMIC_DISPATCH(ToInt32)(from, to, n); }
void float32_to_int8(const float* from, int8_t* to, size_t n) { HWY_DYNAMIC_DISPATCH(ToInt8)(from, to, n); }

void convert_plainly(PlainConversion kind, const void* from, void* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(ConvertPlainly)(kind, from, to, n);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

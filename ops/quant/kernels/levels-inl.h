// Vectors of levels as floats and back, for kernels on Highway.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_QUANT_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_QUANT_LEVELS_INL_H_
#undef KAON_OPS_QUANT_LEVELS_INL_H_
#else
#define KAON_OPS_QUANT_LEVELS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class D>
HWY_INLINE hn::Vec<D> AsFloats(D d, const T* from) {
  const hn::RebindToSigned<D> di;
  if constexpr (sizeof(T) == 4) {
    return hn::ConvertTo(d, hn::LoadU(di, from));
  } else {
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(hn::Rebind<T, D>(), from)));
  }
}

// Stores the levels of int8 or uint8 nearest to x; NaN gives 0.
template <class T, class D>
HWY_INLINE void StoreLevels(D d, hn::Vec<D> x, T* to) {
  constexpr float least = T(-1) < T(0) ? -128.f : 0.f;
  x = hn::IfThenElseZero(hn::Eq(x, x), x);
  x = hn::Max(hn::Min(x, hn::Set(d, least + 255.f)), hn::Set(d, least));
  // so far from 0 that floats are whole numbers: the last byte is the nearest one
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint8_t, D> d8;
  const auto bits = hn::BitCast(du, hn::Add(x, hn::Set(d, 12582912.f)));
  hn::StoreU(hn::TruncateTo(d8, bits), d8, reinterpret_cast<uint8_t*>(to));
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Bits of integers per instruction set.
#include "kaon/ops/numeric/kernels/bits_kernels.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/numeric/kernels/bits_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void LeftShift(const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n) {
  const hn::ScalableTag<uint32_t> d;
  const auto width = hn::Set(d, 32), most = hn::Set(d, 31);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto by = hn::LoadU(d, b + i);
    const auto shifted = hn::Shl(hn::LoadU(d, a + i), hn::Min(by, most));
    hn::StoreU(hn::IfThenElseZero(hn::Lt(by, width), shifted), d, y + i);
  }
  for (; i < n; ++i) y[i] = b[i] < 32 ? a[i] << b[i] : 0;
}

// f(d, a, b) of whole vectors; the rest of the last one as bytes.
template <class F>
HWY_INLINE void EachVector(const uint8_t* a, const uint8_t* b, uint8_t* y, size_t bytes, const F& f) {
  const hn::ScalableTag<uint8_t> d;
  const hn::CappedTag<uint8_t, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= bytes; i += hn::Lanes(d))
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  for (; i < bytes; ++i) hn::StoreU(f(hn::LoadU(d1, a + i), hn::LoadU(d1, b + i)), d1, y + i);
}

struct AndVector {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::And(a, b);
  }
};
struct OrVector {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Or(a, b);
  }
};
struct XorVector {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Xor(a, b);
  }
};

void BitsOfBytes(BitsKind kind, const uint8_t* a, const uint8_t* b, uint8_t* y, size_t bytes) {
  switch (kind) {
    case BitsKind::bit_and: return EachVector(a, b, y, bytes, AndVector());
    case BitsKind::bit_or: return EachVector(a, b, y, bytes, OrVector());
    default: return EachVector(a, b, y, bytes, XorVector());
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(LeftShift);
HWY_EXPORT(BitsOfBytes);

void left_shift_words(const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n) {
  HWY_DYNAMIC_DISPATCH(LeftShift)(a, b, y, n);
}

void bits_of_bytes(BitsKind kind, const void* a, const void* b, void* y, size_t bytes) {
  HWY_DYNAMIC_DISPATCH(BitsOfBytes)
  (kind, static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), static_cast<uint8_t*>(y), bytes);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

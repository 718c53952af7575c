// Shifts of integers per instruction set.
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

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(LeftShift);

void left_shift_words(const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n) {
  HWY_DYNAMIC_DISPATCH(LeftShift)(a, b, y, n);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

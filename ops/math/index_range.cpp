#include "kaon/ops/math/index_range.h"

#include <algorithm>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/math/index_range.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Both x and last - x have no sign where x is in [0, last]. SSE2 has no comparisons of 64 bits. For a negative x the
// difference may wrap, but then the sign of x counts.
template <class T>
bool AllWithin(const T* x, size_t count, T last) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto end = hn::Set(d, last);
  auto a = hn::Zero(d), b = a;
  const auto outside = [&](size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Or(v, hn::Sub(end, v));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Or(a, outside(i));
    b = hn::Or(b, outside(i + lanes));
  }
  T rest = 0;
  for (; i < count; ++i) rest = T(rest | (x[i] < 0 || x[i] > last ? T(-1) : T(0)));
  return rest >= 0 && hn::AllFalse(d, hn::Lt(hn::Or(a, b), hn::Zero(d)));
}

}  // namespace

bool AllWithin64(const int64_t* x, size_t count, int64_t last) { return AllWithin(x, count, last); }
bool AllWithin32(const int32_t* x, size_t count, int32_t last) { return AllWithin(x, count, last); }

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(AllWithin64);
HWY_EXPORT(AllWithin32);

bool all_within(const int64_t* x, size_t count, int64_t n) {
  if (count == 0 || n == 0) return count == 0;
  return HWY_DYNAMIC_DISPATCH(AllWithin64)(x, count, n - 1);
}

bool all_within(const int32_t* x, size_t count, int64_t n) {
  if (count == 0 || n == 0) return count == 0;
  return HWY_DYNAMIC_DISPATCH(AllWithin32)(x, count, int32_t(std::min<int64_t>(n - 1, INT32_MAX)));
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

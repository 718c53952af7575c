#include "kaon/ops/statistics/kernels/extreme_line.h"

#include <type_traits>

#include "kaon/ops/statistics/kernels/running.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/statistics/kernels/extreme_line.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// index[i] = value from `begin` to `end`; what is behind up to n may change.
void FillIndices(int64_t* index, int64_t begin, int64_t end, int64_t n, int64_t value) {
  const hn::ScalableTag<int64_t> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto v = hn::Set(d, value);
  for (; begin < end && begin + lanes <= n; begin += lanes) hn::StoreU(v, d, index + begin);
  for (; begin < end; ++begin) index[begin] = value;
}

// The first element from k on that takes the place of `best`, or one of the last few, which are fewer than a vector.
template <bool Largest, class T>
HWY_INLINE int64_t NextExtreme(const T* x, int64_t k, int64_t n, T best) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto limit = hn::Set(d, best);
  for (; k + lanes <= n; k += lanes) {
    const auto v = hn::LoadU(d, x + k);
    const auto stays = Largest ? hn::Lt(v, limit) : hn::Gt(v, limit);
    if (HWY_LIKELY(hn::AllTrue(d, stays))) continue;
    return k + int64_t(hn::FindFirstTrue(d, hn::Not(stays)));
  }
  return k;
}

template <bool Largest, class T>
void Line(const T* x, int64_t* index, int64_t n) {
  int64_t at = 0, filled = 0, k = 1;
  T best = x[0];
  while (k < n) {
    if (best == best) k = NextExtreme<Largest>(x, k, n, best);
    // what follows a new extreme is often the next one
    for (; k < n && replaces(x[k], best, Largest); ++k) {
      FillIndices(index, filled, k, n, at);
      filled = at = k;
      best = x[k];
    }
    ++k;
  }
  FillIndices(index, filled, n, n, at);
}

}  // namespace

void FloatLine(const float* x, int64_t* index, int64_t n, bool largest) {
  largest ? Line<true>(x, index, n) : Line<false>(x, index, n);
}
void DoubleLine(const double* x, int64_t* index, int64_t n, bool largest) {
  largest ? Line<true>(x, index, n) : Line<false>(x, index, n);
}
void IntegerLine(const int64_t* x, int64_t* index, int64_t n, bool largest) {
  largest ? Line<true>(x, index, n) : Line<false>(x, index, n);
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(FloatLine);
HWY_EXPORT(DoubleLine);
HWY_EXPORT(IntegerLine);

void extreme_line(const float* x, int64_t* index, int64_t n, bool largest) {
  HWY_DYNAMIC_DISPATCH(FloatLine)(x, index, n, largest);
}
void extreme_line(const double* x, int64_t* index, int64_t n, bool largest) {
  HWY_DYNAMIC_DISPATCH(DoubleLine)(x, index, n, largest);
}
void extreme_line(const int64_t* x, int64_t* index, int64_t n, bool largest) {
  HWY_DYNAMIC_DISPATCH(IntegerLine)(x, index, n, largest);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

#include "kaon/ops/reduce/kernels/order_window.h"

#include <cmath>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/reduce/kernels/order_window.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

constexpr int64_t kSamples = 32;

// Samples from all over the row, in order.
void Sample(const uint64_t* words, int64_t n, uint64_t* ordered) {
  uint64_t sample[kSamples];
  for (int64_t i = 0; i < kSamples; ++i) sample[i] = words[(2 * i + 1) * n / (2 * kSamples)];
  for (uint64_t x : sample) {
    int64_t below = 0;
    for (uint64_t y : sample) below += y < x;
    ordered[below] = x;
  }
}

// How far the number of samples below the element `rank` of n may be from what is expected: twice the deviation.
double Margin(int64_t rank, int64_t n) {
  const double share = double(rank) / double(n);
  return 1 + 2 * std::sqrt(double(kSamples) * share * (1 - share));
}

// The words whose mask is set, first. By halves, for which there is an instruction, and in a register: the instruction
// takes ten times as long where it stores.
template <class D>
HWY_INLINE hn::Vec<D> Compressed(D d, hn::Vec<D> words, hn::Mask<D> mask) {
#if HWY_TARGET == HWY_SCALAR
  (void)d, (void)mask;
  return words;
#else
  const hn::Repartition<uint32_t, D> halves;
  const auto both = hn::MaskFromVec(hn::BitCast(halves, hn::VecFromMask(d, mask)));
  return hn::BitCast(d, hn::Compress(hn::BitCast(halves, words), both));
#endif
}

}  // namespace

int64_t Window(const uint64_t* words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t* before) {
  const auto expected = [&](int64_t rank) { return double(kSamples) * double(rank) / double(n); };
  const int64_t end = first + k - 1;
  const int64_t low_at = int64_t(std::floor(expected(first) - Margin(first, n)));
  const int64_t high_at = int64_t(std::ceil(expected(end) + Margin(end, n)));
  uint64_t ordered[kSamples];
  Sample(words, n, ordered);
  const uint64_t low = low_at < 0 ? 0 : ordered[low_at], high = high_at >= kSamples ? ~uint64_t(0) : ordered[high_at];

  const hn::ScalableTag<uint64_t> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto lowest = hn::Set(d, low), highest = hn::Set(d, high);
  int64_t count = 0, below = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, words + i);
    const auto is_below = hn::Lt(v, lowest);
    below += int64_t(hn::CountTrue(d, is_below));
    const auto is_between = hn::Not(hn::Or(is_below, hn::Gt(v, highest)));
    hn::StoreU(Compressed(d, v, is_between), d, to + count);
    count += int64_t(hn::CountTrue(d, is_between));
  }
  for (; i < n; ++i) {
    below += words[i] < low;
    to[count] = words[i];
    count += words[i] >= low && words[i] <= high;
  }
  *before = below;
  return below <= first && end < below + count ? count : 0;
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Window);

int64_t order_window(const uint64_t* words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t& before) {
  return HWY_DYNAMIC_DISPATCH(Window)(words, n, first, k, to, &before);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

#include "kaon/ops/reduce/kernels/order_window.h"

#include <cmath>

#include "kaon/ops/reduce/kernels/order_key.h"

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

// Words that are there.
struct Stored {
  const uint64_t* words;
  uint64_t operator[](int64_t i) const { return words[i]; }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, int64_t i) const {
    return hn::LoadU(d, words + i);
  }
};

// Words made of the numbers of a row: order_key() by vectors.
struct Made {
  const float* x;
  bool is_ascend;
  uint64_t operator[](int64_t i) const { return OrderEntry<uint32_t>(order_key(x[i], is_ascend), uint32_t(i)).both; }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, int64_t i) const {
    const hn::Rebind<float, D> df;
    const hn::Rebind<uint32_t, D> du;
    const hn::Rebind<int32_t, D> di;
    const auto number = hn::LoadU(df, x + i);
    const auto bits = hn::BitCast(di, hn::Add(number, hn::Zero(df)));  // no -0
    const auto sign = hn::BitCast(du, hn::ShiftRight<31>(bits));
    const auto key = hn::Xor(hn::BitCast(du, bits), hn::Or(sign, hn::Set(du, 1u << 31)));
    const auto ordered = hn::Or(key, hn::VecFromMask(du, hn::RebindMask(du, hn::IsNaN(number))));
    const auto turned = hn::Xor(ordered, hn::Set(du, is_ascend ? 0u : ~0u));
    return hn::Or(hn::ShiftLeft<32>(hn::PromoteTo(d, turned)), hn::Add(hn::Iota(d, 0), hn::Set(d, uint64_t(i))));
  }
};

// Samples from all over the row, in order.
template <class Words>
HWY_INLINE void Sample(const Words& words, int64_t n, uint64_t* ordered) {
  uint64_t sample[kSamples];
  for (int64_t i = 0; i < kSamples; ++i) sample[i] = words[(2 * i + 1) * n / (2 * kSamples)];
  const hn::ScalableTag<uint64_t> d;
  for (uint64_t x : sample) {
    size_t below = 0;
    for (size_t i = 0; i < size_t(kSamples); i += hn::Lanes(d)) {
      below += hn::CountTrue(d, hn::Lt(hn::LoadU(d, sample + i), hn::Set(d, x)));
    }
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

template <class Words>
HWY_INLINE int64_t Between(const Words& words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t* before) {
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
    const auto v = words.Load(d, i);
    const auto is_below = hn::Lt(v, lowest);
    below += int64_t(hn::CountTrue(d, is_below));
    const auto is_between = hn::Not(hn::Or(is_below, hn::Gt(v, highest)));
    hn::StoreU(Compressed(d, v, is_between), d, to + count);
    count += int64_t(hn::CountTrue(d, is_between));
  }
  for (; i < n; ++i) {
    const uint64_t word = words[i];
    below += word < low;
    to[count] = word;
    count += word >= low && word <= high;
  }
  *before = below;
  return below <= first && end < below + count ? count : 0;
}

}  // namespace

int64_t Window(const uint64_t* words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t* before) {
  return Between(Stored{words}, n, first, k, to, before);
}

int64_t WindowOfRow(const float* x, bool is_ascend, int64_t n, int64_t first, int64_t k, uint64_t* to,
                    int64_t* before) {
  return Between(Made{x, is_ascend}, n, first, k, to, before);
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Window);
HWY_EXPORT(WindowOfRow);

int64_t order_window(const uint64_t* words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t& before) {
  return HWY_DYNAMIC_DISPATCH(Window)(words, n, first, k, to, &before);
}

int64_t order_window(const float* x, bool is_ascend, int64_t n, int64_t first, int64_t k, uint64_t* to,
                     int64_t& before) {
  return HWY_DYNAMIC_DISPATCH(WindowOfRow)(x, is_ascend, n, first, k, to, &before);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

#include "kaon/ops/quant/kernels/level_tiles.h"

#include <algorithm>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/quant/kernels/level_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"
#include "kaon/ops/quant/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The same number, which the compiler must round before it uses it: GCC would add products unrounded. (Clang does not
// join the products and sums of different functions.)
template <class V>
HWY_INLINE V Rounded(V x) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC_ACTUAL
  __asm__("" : "+v"(x.raw));
#endif
  return x;
}

template <class D, class T>
HWY_INLINE hn::Vec<D> NumbersOf(D d, const T* levels, LevelMeaning m) {
  return Rounded(hn::Mul(hn::Sub(AsFloats(d, levels), hn::Set(d, m.zero)), hn::Set(d, m.scale)));
}

template <class T, class D>
HWY_INLINE void StoreNumbers(D d, hn::Vec<D> x, LevelMeaning m, T* to) {
  StoreLevels(d, hn::Add(hn::Round(hn::Div(x, hn::Set(d, m.scale))), hn::Set(d, m.zero)), to);
}

// Calls f(T()) for the type of levels.
template <class F>
HWY_INLINE void ByLevel(DType t, const F& f) {
  if (t == DType::int8) return f(int8_t());
  f(uint8_t());
}

// Meanings are copies, which stores of bytes cannot change.
void NumbersToLevels(const float* HWY_RESTRICT from, LevelMeaning to, void* levels, size_t n) {
  ByLevel(to.dtype, [&](auto t) HWY_ATTR {
    auto* const out = static_cast<decltype(t)*>(levels);
    for_each_vector<float>(int64_t(n),
                           [&](auto d, int64_t i) HWY_ATTR { StoreNumbers(d, hn::LoadU(d, from + i), to, out + i); });
  });
}

void NumbersOfLevels(const void* levels, LevelMeaning from, float* HWY_RESTRICT to, size_t n) {
  ByLevel(from.dtype, [&](auto t) HWY_ATTR {
    const auto* const in = static_cast<const decltype(t)*>(levels);
    for_each_vector<float>(int64_t(n),
                           [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(NumbersOf(d, in + i, from), d, to + i); });
  });
}

void SumsOfLevels(const void* lhs, LevelMeaning left, const void* rhs, LevelMeaning right, bool relu, LevelMeaning to,
                  void* sums, size_t n) {
  ByLevel(left.dtype, [&](auto l) HWY_ATTR {
    ByLevel(right.dtype, [&](auto r) HWY_ATTR {
      ByLevel(to.dtype, [&](auto t) HWY_ATTR {
        const auto* const a = static_cast<const decltype(l)*>(lhs);
        const auto* const b = static_cast<const decltype(r)*>(rhs);
        auto* const out = static_cast<decltype(t)*>(sums);
        for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
          auto y = hn::Add(NumbersOf(d, a + i, left), NumbersOf(d, b + i, right));
          if (relu) y = hn::Max(y, hn::Zero(d));
          StoreNumbers(d, y, to, out + i);
        });
      });
    });
  });
}

void LargestLevels(DType t, const void* image, const LevelWindows& w, void* to) {
  ByLevel(t, [&](auto level) HWY_ATTR {
    using T = decltype(level);
    const T* const from = static_cast<const T*>(image);
    T* out = static_cast<T*>(to);
    for (int64_t x = 0; x < w.columns; ++x, out += w.channels) {
      const int64_t begin = std::max<int64_t>(x * w.step - w.pad, 0);
      const int64_t end = std::min(x * w.step - w.pad + w.kernel, w.width);
      for_each_vector<T>(w.channels, [&](auto d, int64_t c) HWY_ATTR {
        auto most = hn::Set(d, hwy::LowestValue<T>());
        for (int64_t row = w.rows_begin; row < w.rows_end; ++row) {
          for (int64_t at = begin; at < end; ++at) {
            most = hn::Max(most, hn::LoadU(d, from + (row * w.width + at) * w.channels + c));
          }
        }
        hn::StoreU(most, d, out + c);
      });
    }
  });
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(NumbersToLevels);
HWY_EXPORT(NumbersOfLevels);
HWY_EXPORT(SumsOfLevels);
HWY_EXPORT(LargestLevels);

void numbers_to_levels(const float* from, const LevelMeaning& to, void* levels, size_t n) {
  HWY_DYNAMIC_DISPATCH(NumbersToLevels)(from, to, levels, n);
}
void numbers_of_levels(const void* levels, const LevelMeaning& from, float* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(NumbersOfLevels)(levels, from, to, n);
}
void sums_of_levels(const void* lhs, const LevelMeaning& left, const void* rhs, const LevelMeaning& right, bool relu,
                    const LevelMeaning& to, void* sums, size_t n) {
  HWY_DYNAMIC_DISPATCH(SumsOfLevels)(lhs, left, rhs, right, relu, to, sums, n);
}
void largest_levels(DType t, const void* image, const LevelWindows& w, void* to) {
  HWY_DYNAMIC_DISPATCH(LargestLevels)(t, image, w, to);
}

}  // namespace kaon::ops
#endif

#include <algorithm>
#include <cstring>

#include "kaon/ops/quant/kernels/int8_direct.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/quant/kernels/int8_pairs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Sums = hn::CappedTag<int32_t, size_t(int8_lanes)>;
constexpr int vectors = int(int8_lanes) / int(hn::MaxLanes(Sums()));  // of a block of filters
// The sums of so many results, the filters' weights and a result's data stay in 16 registers.
constexpr int most_pixels = vectors <= 2 ? 6 : 3;

// Each lane has two int16: sum + a[0] b[0] + a[1] b[1].
template <class V>
HWY_INLINE V AddProducts(V sum, V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::DFromV<V> d;
  const hn::Repartition<int16_t, decltype(d)> pairs;
  V none = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(pairs, a), hn::BitCast(pairs, b), sum, none);
#else  // elsewhere that adds other pairs
  const auto low = [](V x) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(x)); };
  const auto high = [](V x) HWY_ATTR { return hn::ShiftRight<16>(x); };
  return hn::Add(sum, hn::Add(hn::Mul(low(a), low(b)), hn::Mul(high(a), high(b))));
#endif
}

// The sums of P results, each with the patch at its pointer, by a block of filters.
template <int P>
HWY_INLINE void PairsTile(const Int8Patch& patch, const uint8_t* const* pixels, const int32_t* HWY_RESTRICT w,
                          int32_t* sums, int64_t stride, int64_t filters) {
  const Sums d;
  const int64_t lanes = int64_t(hn::Lanes(d)), quads = patch.quads();
  hn::Vec<Sums> s[P][vectors];
  for (int p = 0; p < P; ++p) {
    for (int v = 0; v < vectors; ++v) s[p][v] = hn::Zero(d);
  }
  for (int64_t r = 0; r < patch.rows; ++r) {
    for (int64_t c = 0; c < patch.columns; ++c) {
      const uint8_t* x[P];
      for (int p = 0; p < P; ++p) x[p] = pixels[p] + r * patch.row_stride + c * patch.column_stride;
      for (int64_t q = 0; q < quads; ++q, w += int8_lanes) {
        hn::Vec<Sums> b[vectors];
        for (int v = 0; v < vectors; ++v) b[v] = hn::LoadU(d, w + v * lanes);
        for (int p = 0; p < P; ++p) {
          int32_t two;
          std::memcpy(&two, x[p] + q * 4, 4);
          const auto a = hn::Set(d, two);
          for (int v = 0; v < vectors; ++v) s[p][v] = AddProducts(s[p][v], a, b[v]);
        }
      }
    }
  }
  for (int p = 0; p < P; ++p) {
    int32_t all[int8_lanes];
    int32_t* const to = filters == int8_lanes ? sums + p * stride : all;
    for (int v = 0; v < vectors; ++v) hn::StoreU(s[p][v], d, to + v * lanes);
    if (to == all) std::copy_n(all, filters, sums + p * stride);
  }
}

// `n`: 1 to P.
template <int P>
HWY_INLINE void PairsTileOf(int64_t n, const Int8Patch& patch, const uint8_t* const* pixels, const int32_t* w,
                            int32_t* sums, int64_t stride, int64_t filters) {
  if (n == P) return PairsTile<P>(patch, pixels, w, sums, stride, filters);
  if constexpr (P > 1) PairsTileOf<P - 1>(n, patch, pixels, w, sums, stride, filters);
}

void DirectPairs(const Int8Patch& patch, const int16_t* image, const int32_t* w, int64_t width, int64_t first,
                 int64_t count, int64_t filters, int32_t* sums, int64_t stride) {
  const int64_t blocks = (count + most_pixels - 1) / most_pixels;  // of about one size
  int64_t y = first / width, x = first % width;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = count * b / blocks, n = count * (b + 1) / blocks - at;
    const uint8_t* pixels[most_pixels];
    for (int64_t p = 0; p < n; ++p) {
      pixels[p] = reinterpret_cast<const uint8_t*>(image) + y * patch.step_y + x * patch.step_x;
      if (++x == width) x = 0, ++y;
    }
    PairsTileOf<most_pixels>(n, patch, pixels, w, sums + at * stride, stride, filters);
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(DirectPairs);

void int8_direct_pairs(const Int8Patch& patch, const int16_t* image, const std::byte* packed, int64_t width,
                       int64_t first, int64_t count, int64_t filter, int64_t filters, int32_t* sums, int64_t stride) {
  const auto* const w = reinterpret_cast<const int32_t*>(packed) + filter * patch.runs() * patch.quads();
  HWY_DYNAMIC_DISPATCH(DirectPairs)(patch, image, w, width, first, count, filters, sums, stride);
}

}  // namespace kaon::ops
#endif

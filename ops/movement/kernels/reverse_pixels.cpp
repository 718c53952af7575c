#include "kaon/ops/movement/kernels/reverse_pixels.h"

#include <algorithm>
#include <cstring>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/movement/kernels/reverse_pixels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

constexpr int64_t kPixels = 16;  // at a time: three vectors of 16 bytes

// Where the bytes of each vector of results are in the three vectors that were read; 0x80: in another one.
struct Places {
  uint8_t at[3][3][16];  // by result, by vector read
};
constexpr Places FindPlaces() {
  Places p{};
  for (int byte = 0; byte < 48; ++byte) {
    const int from = 3 * (kPixels - 1 - byte / 3) + byte % 3;
    for (int v = 0; v < 3; ++v) p.at[byte / 16][v][byte % 16] = from / 16 == v ? uint8_t(from % 16) : 0x80;
  }
  return p;
}
alignas(16) constexpr Places kPlaces = FindPlaces();

}  // namespace

// Writes the n pixels before and at `last`, which is the last one, from `to` on.
void ReverseRow(const uint8_t* last, uint8_t* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d;
  for (; i + kPixels <= n; i += kPixels) {
    const uint8_t* const from = last - 3 * (i + kPixels - 1);
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + 16), c = hn::LoadU(d, from + 32);
    for (int r = 0; r < 3; ++r) {
      const auto& at = kPlaces.at[r];
      const auto ab =
          hn::Or(hn::TableLookupBytesOr0(a, hn::Load(d, at[0])), hn::TableLookupBytesOr0(b, hn::Load(d, at[1])));
      hn::StoreU(hn::Or(ab, hn::TableLookupBytesOr0(c, hn::Load(d, at[2]))), d, to + 3 * i + 16 * r);
    }
  }
#endif
  for (; i < n; ++i) std::memcpy(to + 3 * i, last - 3 * i, 3);
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ReverseRow);

bool reverse_pixels(KernelContext& c, const StridedCopy& copy) {
  const CopyDims dims = merge(copy.dims);
  const int count = dims.count();
  if (size_of(c.out().dtype) != 1 || count < 2 || dims.elements() == 0) return false;
  const CopyDim row = dims[count - 2], pixel = dims[count - 1];
  if (pixel.size != 3 || pixel.src != 1 || pixel.dst != 1 || row.src != -3 || row.dst != 3) return false;
  const auto* const from = c.in(0).as<const uint8_t>() + copy.src;
  auto* const to = c.out().as<uint8_t>() + copy.dst;
  const int64_t rows = dims.elements() / (3 * row.size);
  c.run.parallel_for(rows, std::max<int64_t>(1, (1 << 16) / row.size), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, src = 0, dst = 0;
      for (int k = count - 2; k-- > 0; rest /= dims[k].size) {
        src += rest % dims[k].size * dims[k].src, dst += rest % dims[k].size * dims[k].dst;
      }
      HWY_DYNAMIC_DISPATCH(ReverseRow)(from + src, to + dst, row.size);
    }
  });
  return true;
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

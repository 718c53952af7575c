#include "kaon/ops/kernels/image_layout.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/kernels/image_layout.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
void Transpose(const float* HWY_RESTRICT from, int64_t from_stride, float* HWY_RESTRICT to, int64_t to_stride,
               int64_t rows, int64_t columns) {
  int64_t done_rows = 0, done_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  if (rows == 3 && to_stride == 3) {  // pictures
    const hn::ScalableTag<float> all;
    const auto lanes = int64_t(hn::Lanes(all));
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      const float* p = from + j;
      hn::StoreInterleaved3(hn::LoadU(all, p), hn::LoadU(all, p + from_stride), hn::LoadU(all, p + 2 * from_stride),
                            all, to + 3 * j);
    }
    from += j, to += 3 * j, columns -= j;
  }
  const hn::Full128<float> d;
  const hn::Full128<double> pairs;
  done_rows = rows / 4 * 4, done_columns = columns / 4 * 4;
  // strips of 64 rows: the lines that are read stay in the first cache until they are used up
  for (int64_t strip = 0; strip < done_rows; strip += 64) {
    const int64_t strip_end = std::min(done_rows, strip + 64);
    for (int64_t j = 0; j < done_columns; j += 4) {
      for (int64_t i = strip; i < strip_end; i += 4) {
        const float* p = from + i * from_stride + j;
        const auto r0 = hn::LoadU(d, p), r1 = hn::LoadU(d, p + from_stride);
        const auto r2 = hn::LoadU(d, p + 2 * from_stride), r3 = hn::LoadU(d, p + 3 * from_stride);
        const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
        const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
        const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
        const auto f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
        float* q = to + j * to_stride + i;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, q);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, q + to_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, e, f)), d, q + 2 * to_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, e, f)), d, q + 3 * to_stride);
      }
    }
  }
#endif
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < done_rows ? done_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Transpose);

void convert_positions(const float* from, ImageLayout from_layout, int64_t from_positions, float* to,
                       ImageLayout to_layout, int64_t to_positions, int64_t channels, int64_t count) {
  constexpr auto rm = ImageLayout::row_major, cl = ImageLayout::channels_last, blocked = ImageLayout::blocked16;
  if (channels * count == 0) return;  // there may be no memory
  const auto copy = [](float* target, const float* source, int64_t n) {
    std::memcpy(target, source, size_t(n) * sizeof(float));
  };
  if (from_layout == cl && to_layout == cl) return copy(to, from, channels * count);
  const bool in_blocks = from_layout == blocked || to_layout == blocked;
  const int64_t step = in_blocks ? 16 : channels;
  for (int64_t c = 0; c < channels; c += step) {
    const int64_t some = std::min(step, channels - c);
    // a block starts at c * positions except in channels_last, where it starts at c
    const float* source = from + (from_layout == cl ? c : c * from_positions);
    float* target = to + (to_layout == cl ? c : c * to_positions);
    const int64_t from_stride = from_layout == blocked ? 16 : channels;
    const int64_t to_stride = to_layout == blocked ? 16 : channels;
    if (to_layout == blocked && some < 16) std::fill_n(target, 16 * count, 0.f);
    if (from_layout == blocked && to_layout == blocked) {
      copy(target, source, 16 * count);
    } else if (from_layout == rm && to_layout == rm) {
      for (int64_t i = 0; i < some; ++i) copy(target + i * to_positions, source + i * from_positions, count);
    } else if (from_layout == rm) {
      HWY_DYNAMIC_DISPATCH(Transpose)(source, from_positions, target, to_stride, some, count);
    } else if (to_layout == rm) {
      HWY_DYNAMIC_DISPATCH(Transpose)(source, from_stride, target, to_positions, count, some);
    } else if (some == 16) {
      for (int64_t i = 0; i < count; ++i) copy(target + i * to_stride, source + i * from_stride, 16);
    } else {
      for (int64_t i = 0; i < count; ++i) copy(target + i * to_stride, source + i * from_stride, some);
    }
  }
}

void convert_images(const float* from, ImageLayout from_layout, float* to, ImageLayout to_layout, int64_t images,
                    int64_t channels, int64_t positions) {
  const int64_t from_image = image_floats(from_layout, channels, positions);
  const int64_t to_image = image_floats(to_layout, channels, positions);
  for (int64_t n = 0; n < images; ++n, from += from_image, to += to_image) {
    convert_positions(from, from_layout, positions, to, to_layout, positions, channels, positions);
  }
}

}  // namespace kaon::ops
#endif

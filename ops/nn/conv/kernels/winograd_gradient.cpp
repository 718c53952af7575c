#include "kaon/ops/nn/conv/kernels/winograd_gradient.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv/kernels/winograd_gradient.cpp"
// vectors are kept in arrays, so their size must be known
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>

#include "kaon/ops/nn/conv/kernels/winograd_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::winograd {
namespace HWY_NAMESPACE {

// The heads' transform: out[i] = row i of A times in.
HWY_INLINE void head_points(const V (&in)[2], V (&out)[4]) {
  out[0] = in[0];
  out[1] = hn::Add(in[0], in[1]);
  out[2] = hn::Sub(in[0], in[1]);
  out[3] = in[1];
}
HWY_INLINE void head_points(const V (&in)[2], V (&out)[6]) {
  out[0] = in[0];
  out[1] = hn::MulAdd(hn::Set(d, a), in[1], in[0]);
  out[2] = hn::NegMulAdd(hn::Set(d, a), in[1], in[0]);
  out[3] = hn::MulAdd(hn::Set(d, b), in[1], in[0]);
  out[4] = hn::NegMulAdd(hn::Set(d, b), in[1], in[0]);
  out[5] = in[1];
}
HWY_INLINE void head_points(const V (&in)[4], V (&out)[6]) {
  const V even_a = hn::MulAdd(hn::Set(d, 0.5f), in[2], in[0]), even_b = hn::MulAdd(hn::Set(d, 2.f), in[2], in[0]);
  const V odd_a = hn::MulAdd(hn::Set(d, 0.5f), in[3], in[1]), odd_b = hn::MulAdd(hn::Set(d, 2.f), in[3], in[1]);
  out[0] = in[0];
  out[1] = hn::MulAdd(hn::Set(d, a), odd_a, even_a);
  out[2] = hn::NegMulAdd(hn::Set(d, a), odd_a, even_a);
  out[3] = hn::MulAdd(hn::Set(d, b), odd_b, even_b);
  out[4] = hn::NegMulAdd(hn::Set(d, b), odd_b, even_b);
  out[5] = in[3];
}

// The gradient of the filters' transform: out[i] = row i of G^T times in.
HWY_INLINE void from_sums(const V (&in)[4], V (&out)[3]) {
  const V half = hn::Set(d, 0.5f);
  out[0] = hn::MulAdd(half, hn::Add(in[1], in[2]), in[0]);
  out[1] = hn::Mul(half, hn::Sub(in[1], in[2]));
  out[2] = hn::MulAdd(half, hn::Add(in[1], in[2]), in[3]);
}
HWY_INLINE void from_sums(const V (&in)[6], V (&out)[3]) {
  const V even_a = hn::Add(in[1], in[2]), odd_a = hn::Sub(in[1], in[2]);
  const V even_b = hn::Add(in[3], in[4]), odd_b = hn::Sub(in[3], in[4]);
  const V third = hn::Set(d, 1 / 3.f);
  out[0] = hn::MulAdd(hn::Set(d, 1 / 6.f), even_b, hn::MulAdd(hn::Set(d, -2 / 3.f), even_a, in[0]));
  out[1] = hn::MulAdd(hn::Set(d, b / 6), odd_b, hn::Mul(hn::Set(d, -2 * a / 3), odd_a));
  out[2] = hn::MulAdd(third, hn::Sub(even_b, even_a), in[5]);
}

HWY_INLINE void from_sums(const V (&in)[6], V (&out)[5]) {
  const V even_a = hn::Add(in[1], in[2]), odd_a = hn::Sub(in[1], in[2]);
  const V even_b = hn::Add(in[3], in[4]), odd_b = hn::Sub(in[3], in[4]);
  const V third = hn::Set(d, 1 / 3.f), sixth = hn::Set(d, 1 / 6.f), two_thirds = hn::Set(d, 2 / 3.f);
  out[0] = hn::MulAdd(sixth, even_b, hn::NegMulAdd(two_thirds, even_a, in[0]));
  out[1] = hn::MulAdd(hn::Set(d, b / 6), odd_b, hn::Mul(hn::Set(d, -2 * a / 3), odd_a));
  out[2] = hn::Mul(third, hn::Sub(even_b, even_a));
  out[3] = hn::MulAdd(hn::Set(d, b / 3), odd_b, hn::Mul(hn::Set(d, -a / 3), odd_a));
  out[4] = hn::MulAdd(two_thirds, even_b, hn::NegMulAdd(sixth, even_a, in[5]));
}

template <int64_t Size, int64_t Taps>
void transform_heads(const Images& heads, const Tiles& tiles, int64_t out_channels, float* HWY_RESTRICT to) {
  constexpr int64_t side = Size + Taps - 1;
  const int64_t width = head_width(out_channels), stride = head_stride(tiles.count, out_channels);
  const int64_t row_stride = heads.width * heads.position_stride;
  const auto points = [](const auto& window, auto& values) { head_points(window, values); };
  for (int64_t t = 0; t < tiles.count; ++t) {
    const Place place = place_of(tiles.first + t, Size, heads);
    const Part part{0, std::min(heads.height - place.y, Size), 0, std::min(heads.width - place.x, Size)};
    const bool is_inside = part.end_row == Size && part.end_column == Size;
    const int64_t origin = place.image * heads.image_stride + place.y * row_stride + place.x * heads.position_stride;
    for (int64_t c = 0; c < out_channels; c += lanes()) {
      const float* const from = heads.data + origin + c / block * heads.block_stride + c % block;
      float* const column = to + t * width + c;
      const int64_t left = out_channels - c;
      if (is_inside && left >= lanes()) {
        transform_window<Size, side, true>(from, row_stride, heads.position_stride, part, left, column, stride, points);
      } else {
        transform_window<Size, side, false>(from, row_stride, heads.position_stride, part, left, column, stride,
                                            points);
      }
    }
    for (int64_t p = 0; p < side * side; ++p)
      std::fill(to + p * stride + t * width + out_channels, to + p * stride + (t + 1) * width, 0.f);
  }
}

// Sums for this many input channels by two vectors of output channels stay in registers.
constexpr int64_t sum_rows = HWY_MAX_BYTES >= 64 ? 8 : 4;

void MultiplyHeads(const float* input, const float* heads, const Tiles& tiles, int64_t in_channels,
                   int64_t out_channels, bool add, float* sums) {
  const int64_t width = head_width(out_channels), n = lanes();
  for (int64_t point = 0; point < tiles.filtering.points(); ++point) {
    const float* const x = input + point * input_stride(tiles.count, in_channels);
    const float* const y = heads + point * head_stride(tiles.count, out_channels);
    float* const z = sums + point * sum_stride(in_channels, out_channels);
    for (int64_t k = 0; k < width; k += 2 * n) {
      for (int64_t c = 0; c < in_channels; c += sum_rows) {
        float* HWY_RESTRICT const to = z + c * width + k;
        V low[sum_rows], high[sum_rows];
        for (int r = 0; r < sum_rows; ++r) {
          low[r] = add ? hn::LoadU(d, to + r * width) : hn::Zero(d);
          high[r] = add ? hn::LoadU(d, to + r * width + n) : hn::Zero(d);
        }
        const float *from = x + c / block * block * tiles.count + c % block, *head = y + k;
        for (int64_t t = 0; t < tiles.count; ++t, from += block, head += width) {
          const V h0 = hn::LoadU(d, head), h1 = hn::LoadU(d, head + n);
          for (int r = 0; r < sum_rows; ++r) {
            const V v = hn::Set(d, from[r]);
            low[r] = hn::MulAdd(v, h0, low[r]);
            high[r] = hn::MulAdd(v, h1, high[r]);
          }
        }
        for (int r = 0; r < sum_rows; ++r)
          hn::StoreU(low[r], d, to + r * width), hn::StoreU(high[r], d, to + r * width + n);
      }
    }
  }
}

template <int64_t Size, int64_t Taps>
void transform_sums(const float* HWY_RESTRICT sums, int64_t in_channels, int64_t out_channels, int64_t out_stride,
                    int64_t in_stride, int64_t tap_stride, float* HWY_RESTRICT filters) {
  constexpr int64_t side = Size + Taps - 1;
  const int64_t width = head_width(out_channels), stride = sum_stride(in_channels, out_channels);
  for (int64_t c = 0; c < in_channels; ++c) {
    for (int64_t k = 0; k < out_channels; k += lanes()) {
      const float* const from = sums + c * width + k;
      V columns[side][Taps], in[side], out[Taps];
      for (int64_t j = 0; j < side; ++j) {
        for (int64_t i = 0; i < side; ++i) in[i] = hn::LoadU(d, from + (side * i + j) * stride);
        from_sums(in, columns[j]);
      }
      HWY_ALIGN float taps[Taps * Taps][block];
      for (int64_t i = 0; i < Taps; ++i) {
        for (int64_t j = 0; j < side; ++j) in[j] = columns[j][i];
        from_sums(in, out);
        for (int64_t j = 0; j < Taps; ++j) hn::Store(out[j], d, taps[Taps * i + j]);
      }
      float* const to = filters + k * out_stride + c * in_stride;
      for (int64_t i = 0; i < std::min(lanes(), out_channels - k); ++i) {
        for (int64_t t = 0; t < Taps * Taps; ++t) to[i * out_stride + t * tap_stride] = taps[t][i];
      }
    }
  }
}

void TransformHeads(const Images& heads, const Tiles& tiles, int64_t out_channels, float* transformed) {
  with_filtering(tiles.filtering, [&]<int64_t Size, int64_t Taps>() {
    transform_heads<Size, Taps>(heads, tiles, out_channels, transformed);
  });
}

void TransformSums(const float* sums, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                   int64_t out_stride, int64_t in_stride, int64_t tap_stride, float* filters) {
  with_filtering(filtering, [&]<int64_t Size, int64_t Taps>() {
    transform_sums<Size, Taps>(sums, in_channels, out_channels, out_stride, in_stride, tap_stride, filters);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops::winograd {

HWY_EXPORT(TransformHeads);
HWY_EXPORT(MultiplyHeads);
HWY_EXPORT(TransformSums);

void transform_heads(const Images& heads, const Tiles& tiles, int64_t out_channels, float* transformed) {
  HWY_DYNAMIC_DISPATCH(TransformHeads)(heads, tiles, out_channels, transformed);
}

void multiply_heads(const float* input, const float* heads, const Tiles& tiles, int64_t in_channels,
                    int64_t out_channels, bool add, float* sums) {
  HWY_DYNAMIC_DISPATCH(MultiplyHeads)(input, heads, tiles, in_channels, out_channels, add, sums);
}

void transform_sums(const float* sums, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                    int64_t out_stride, int64_t in_stride, int64_t tap_stride, float* filters) {
  HWY_DYNAMIC_DISPATCH(TransformSums)
  (sums, filtering, in_channels, out_channels, out_stride, in_stride, tap_stride, filters);
}

}  // namespace kaon::ops::winograd
#endif

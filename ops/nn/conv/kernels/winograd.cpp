#include "kaon/ops/nn/conv/kernels/winograd.h"

#include <hwy/cache_control.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv/kernels/winograd.cpp"
// vectors are kept in arrays, so their size must be known
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>

#include "kaon/ops/nn/conv/kernels/winograd_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::winograd {
namespace HWY_NAMESPACE {

// The results: out[i] = row i of A^T times in.
HWY_INLINE void from_points(const V (&in)[4], V (&out)[2]) {
  out[0] = hn::Add(in[0], hn::Add(in[1], in[2]));
  out[1] = hn::Add(in[3], hn::Sub(in[1], in[2]));
}
HWY_INLINE void from_points(const V (&in)[6], V (&out)[2]) {
  out[0] = hn::Add(in[0], hn::Add(hn::Add(in[1], in[2]), hn::Add(in[3], in[4])));
  out[1] = hn::MulAdd(hn::Set(d, a), hn::Sub(in[1], in[2]), hn::MulAdd(hn::Set(d, b), hn::Sub(in[3], in[4]), in[5]));
}
HWY_INLINE void from_points(const V (&in)[6], V (&out)[4]) {
  const V even_a = hn::Add(in[1], in[2]), odd_a = hn::Sub(in[1], in[2]);
  const V even_b = hn::Add(in[3], in[4]), odd_b = hn::Sub(in[3], in[4]);
  out[0] = hn::Add(in[0], hn::Add(even_a, even_b));
  out[1] = hn::MulAdd(hn::Set(d, a), odd_a, hn::Mul(hn::Set(d, b), odd_b));
  out[2] = hn::MulAdd(hn::Set(d, 0.5f), even_a, hn::Mul(hn::Set(d, 2.f), even_b));
  out[3] = hn::MulAdd(hn::Set(d, a / 2), odd_a, hn::MulAdd(hn::Set(d, 2 * b), odd_b, in[5]));
}

// The filters' transform, G: a filter's polynomial at the points, each value divided by the product of the point's
// distances to the others.
HWY_INLINE void filter_points(const V (&in)[3], V (&out)[4]) {
  const V half = hn::Set(d, 0.5f), even = hn::Mul(half, hn::Add(in[0], in[2])), odd = hn::Mul(half, in[1]);
  out[0] = in[0];
  out[1] = hn::Add(even, odd);
  out[2] = hn::Sub(even, odd);
  out[3] = in[2];
}
HWY_INLINE void filter_points(const V (&in)[3], V (&out)[6]) {
  const V even_a = hn::MulAdd(hn::Set(d, -1 / 3.f), in[2], hn::Mul(hn::Set(d, -2 / 3.f), in[0]));
  const V even_b = hn::MulAdd(hn::Set(d, 1 / 3.f), in[2], hn::Mul(hn::Set(d, 1 / 6.f), in[0]));
  const V odd_a = hn::Set(d, -2 * a / 3), odd_b = hn::Set(d, b / 6);
  out[0] = in[0];
  out[1] = hn::MulAdd(odd_a, in[1], even_a);
  out[2] = hn::NegMulAdd(odd_a, in[1], even_a);
  out[3] = hn::MulAdd(odd_b, in[1], even_b);
  out[4] = hn::NegMulAdd(odd_b, in[1], even_b);
  out[5] = in[2];
}
HWY_INLINE void filter_points(const V (&in)[5], V (&out)[6]) {
  const V quarter = hn::MulAdd(hn::Set(d, 0.25f), in[4], hn::MulAdd(hn::Set(d, 0.5f), in[2], in[0]));
  const V four = hn::MulAdd(hn::Set(d, 4.f), in[4], hn::MulAdd(hn::Set(d, 2.f), in[2], in[0]));
  const V even_a = hn::Mul(hn::Set(d, -2 / 3.f), quarter), even_b = hn::Mul(hn::Set(d, 1 / 6.f), four);
  const V odd_a = hn::MulAdd(hn::Set(d, 0.5f), in[3], in[1]), odd_b = hn::MulAdd(hn::Set(d, 2.f), in[3], in[1]);
  out[0] = in[0];
  out[1] = hn::MulAdd(hn::Set(d, -2 * a / 3), odd_a, even_a);
  out[2] = hn::NegMulAdd(hn::Set(d, -2 * a / 3), odd_a, even_a);
  out[3] = hn::MulAdd(hn::Set(d, b / 6), odd_b, even_b);
  out[4] = hn::NegMulAdd(hn::Set(d, b / 6), odd_b, even_b);
  out[5] = in[4];
}

template <int64_t Size, int64_t Taps>
void transform_filters(const Filters& filters, int64_t in_channels, int64_t out_channels, int64_t number, float* to) {
  constexpr int64_t side = Size + Taps - 1;
  const int64_t first = number * panel, point_stride = in_channels * panel;
  // what no second cache holds goes past it: to read it in first would take three times as long
  const bool is_large = in_channels * out_channels > 128 * 128;
  HWY_ALIGN float taps[Taps * Taps][block] = {};
  for (int64_t c = 0; c < in_channels; ++c) {
    for (int64_t k = 0; k < panel; k += lanes()) {
      const float* const from = filters.data + (first + k) * filters.out_stride + c * filters.in_stride;
      const int64_t count = std::clamp<int64_t>(out_channels - first - k, 0, lanes());
      for (int64_t t = 0; t < Taps * Taps; ++t) {
        for (int64_t i = 0; i < count; ++i) taps[t][i] = from[i * filters.out_stride + t * filters.tap_stride];
        for (int64_t i = count; i < lanes(); ++i) taps[t][i] = 0;
      }
      V rows[Taps][side], in[Taps], out[side];
      for (int64_t j = 0; j < Taps; ++j) {
        for (int64_t i = 0; i < Taps; ++i) in[i] = hn::Load(d, taps[Taps * i + j]);
        filter_points(in, rows[j]);
      }
      float* HWY_RESTRICT const column = to + c * panel + k;
      for (int64_t i = 0; i < side; ++i) {
        for (int64_t j = 0; j < Taps; ++j) in[j] = rows[j][i];
        filter_points(in, out);
        for (int64_t j = 0; j < side; ++j) {
          float* HWY_RESTRICT const place = column + (side * i + j) * point_stride;
          if (is_large) hn::Stream(out[j], d, place);
          else hn::StoreU(out[j], d, place);
        }
      }
    }
  }
  if (is_large) hwy::FlushStream();
}

template <int64_t Size, int64_t Taps>
void transform_input(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels,
                     float* HWY_RESTRICT to) {
  constexpr int64_t side = Size + Taps - 1;
  const int64_t stride = input_stride(tiles.count, in_channels), row_stride = in.width * in.position_stride;
  const auto points = [](const auto& window, auto& values) { to_points(window, values); };
  for (int64_t t = 0; t < tiles.count; ++t) {
    const Place place = place_of(tiles.first + t, Size, out);
    const int64_t y = place.y - tiles.pad_y, x = place.x - tiles.pad_x;
    const Part part{std::max<int64_t>(-y, 0), std::min(in.height - y, side), std::max<int64_t>(-x, 0),
                    std::min(in.width - x, side)};
    const bool is_inside = y >= 0 && x >= 0 && part.end_row == side && part.end_column == side;
    const int64_t origin = place.image * in.image_stride + y * row_stride + x * in.position_stride;
    for (int64_t c = 0; c < in_channels; c += lanes()) {
      const float* const from = in.data + origin + c / block * in.block_stride + c % block;
      float* const column = to + c / block * block * tiles.count + t * block + c % block;
      const int64_t left = in_channels - c;
      if (is_inside && left >= lanes()) {
        transform_window<side, side, true>(from, row_stride, in.position_stride, part, left, column, stride, points);
      } else {
        transform_window<side, side, false>(from, row_stride, in.position_stride, part, left, column, stride, points);
      }
    }
  }
}

// Sums of this many tiles by two vectors of output channels stay in registers.
constexpr int most_rows = HWY_MAX_BYTES >= 64 ? 14 : 6;
// Input channels at a time: a panel of their weights stays in L1 for all tiles.
constexpr int64_t depth = 128;

// The operands of the products for one group of tiles.
struct Products {
  const float* input;
  int64_t block_stride;  // of the input
  const float* weights;
  int64_t in_channels;
  bool add;            // to the sums in `to`
  const float* ahead;  // weights that are wanted next: brought into the second cache, `Lines` lines per input channel
  float* to;
};

template <int Rows, int Lines>
void multiply_rows(const Products& p) {
  const int64_t n = lanes();
  for (int64_t k = 0; k < panel; k += 2 * n) {
    float* HWY_RESTRICT const to = p.to + k;
    V low[Rows], high[Rows];
    for (int r = 0; r < Rows; ++r) {
      low[r] = p.add ? hn::LoadU(d, to + r * panel) : hn::Zero(d);
      high[r] = p.add ? hn::LoadU(d, to + r * panel + n) : hn::Zero(d);
    }
    const float *w = p.weights + k, *ahead = p.ahead;
    for (int64_t c = 0; c < p.in_channels; c += block) {
      const float* x = p.input + c / block * p.block_stride;
      const int64_t count = std::min(block, p.in_channels - c);
#pragma GCC unroll 2
      for (int64_t i = 0; i < count; ++i, ++x, w += panel) {
        if (Lines > 0 && k == 0) {
          for (int line = 0; line < Lines; ++line, ahead += 16) __builtin_prefetch(ahead, 0, 2);
        }
        const V w0 = hn::LoadU(d, w), w1 = hn::LoadU(d, w + n);
        for (int r = 0; r < Rows; ++r) {
          const V v = hn::Set(d, x[r * block]);
          low[r] = hn::MulAdd(v, w0, low[r]);
          high[r] = hn::MulAdd(v, w1, high[r]);
        }
      }
    }
    for (int r = 0; r < Rows; ++r) hn::StoreU(low[r], d, to + r * panel), hn::StoreU(high[r], d, to + r * panel + n);
  }
}

template <int Lines, int Rows = most_rows>
HWY_INLINE void multiply_some(int64_t rows, const Products& p) {
  if (rows == Rows) return multiply_rows<Rows, Lines>(p);
  if constexpr (Rows > 1) multiply_some<Lines, Rows - 1>(rows, p);
}

void Multiply(const float* input, const float* weights, const Tiles& tiles, int64_t in_channels, float* products) {
  const int64_t count = tiles.count, groups = (count + most_rows - 1) / most_rows;
  for (int64_t point = 0; point < tiles.filtering.points(); ++point) {
    for (int64_t c = 0; c < in_channels; c += depth) {
      Products p{nullptr, count * block, weights, std::min(depth, in_channels - c), c > 0, nullptr, nullptr};
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t row = count * g / groups, rows = count * (g + 1) / groups - row;
        p.input = input + point * input_stride(count, in_channels) + c * count + row * block;
        p.to = products + point * product_stride(count) + row * panel;
        p.ahead = weights + in_channels * panel;  // weights of the next point: two lines for each channel
        if (groups == 1) {
          multiply_some<2>(rows, p);
        } else if (g < 2) {
          p.ahead += g * p.in_channels * 16;
          multiply_some<1>(rows, p);
        } else {
          multiply_some<0>(rows, p);
        }
      }
      weights += p.in_channels * panel;
    }
  }
}

template <int64_t Size, int64_t Taps>
void transform_output(const float* HWY_RESTRICT products, const Images& out, const Tiles& tiles, int64_t channel,
                      int64_t out_channels, const Epilogue<float>& e) {
  constexpr int64_t side = Size + Taps - 1;
  const int64_t stride = product_stride(tiles.count), row_stride = out.width * out.position_stride;
  const int64_t channels = std::min(panel, out_channels - channel);
  const bool relu = e.activation == FusedActivation::relu;
  for (int64_t t = 0; t < tiles.count; ++t) {
    const Place place = place_of(tiles.first + t, Size, out);
    const int64_t rows = std::min(Size, out.height - place.y), columns = std::min(Size, out.width - place.x);
    const int64_t origin = place.image * out.image_stride + place.y * row_stride + place.x * out.position_stride;
    for (int64_t k = 0; k < channels; k += lanes()) {
      const int64_t c = channel + k, at = origin + c / block * out.block_stride + c % block;
      const float* const from = products + t * panel + k;
      HWY_ALIGN float columns_done[Size][side][block];
      V in[side], results[Size];
      for (int64_t j = 0; j < side; ++j) {
        for (int64_t i = 0; i < side; ++i) in[i] = hn::LoadU(d, from + (side * i + j) * stride);
        from_points(in, results);
        for (int64_t i = 0; i < Size; ++i) hn::Store(results[i], d, columns_done[i][j]);
      }
      const int64_t left = channels - k;
      const V scale = e.scale ? load_channels(e.scale + c, left) : hn::Set(d, 1.f);
      const V shift = e.shift ? load_channels(e.shift + c, left) : hn::Zero(d);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < side; ++j) in[j] = hn::Load(d, columns_done[i][j]);
        from_points(in, results);
        for (int64_t j = 0; j < Size; ++j) {
          if (j >= columns) break;
          const int64_t offset = at + i * row_stride + j * out.position_stride;
          V y = hn::MulAdd(results[j], scale, shift);
          if (e.addend) y = hn::Add(y, load_channels(e.addend + offset, left));
          if (relu) y = hn::IfThenElse(hn::Lt(y, hn::Zero(d)), hn::Zero(d), y);  // NaN stays
          store_channels(y, out.data + offset, left);
        }
      }
    }
  }
}

void TransformFilters(const Filters& filters, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                      int64_t number, float* transformed) {
  with_filtering(filtering, [&]<int64_t Size, int64_t Taps>() {
    transform_filters<Size, Taps>(filters, in_channels, out_channels, number, transformed);
  });
}

void TransformInput(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels, float* transformed) {
  with_filtering(tiles.filtering, [&]<int64_t Size, int64_t Taps>() {
    transform_input<Size, Taps>(in, out, tiles, in_channels, transformed);
  });
}

void TransformOutput(const float* products, const Images& out, const Tiles& tiles, int64_t channel,
                     int64_t out_channels, const Epilogue<float>& e) {
  with_filtering(tiles.filtering, [&]<int64_t Size, int64_t Taps>() {
    transform_output<Size, Taps>(products, out, tiles, channel, out_channels, e);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops::winograd {

HWY_EXPORT(TransformFilters);
HWY_EXPORT(TransformInput);
HWY_EXPORT(Multiply);
HWY_EXPORT(TransformOutput);

void transform_filters(const Filters& filters, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                       int64_t number, float* transformed) {
  HWY_DYNAMIC_DISPATCH(TransformFilters)(filters, filtering, in_channels, out_channels, number, transformed);
}

void transform_input(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels, float* transformed) {
  HWY_DYNAMIC_DISPATCH(TransformInput)(in, out, tiles, in_channels, transformed);
}

void multiply(const float* input, const float* weights, const Tiles& tiles, int64_t in_channels, float* products) {
  HWY_DYNAMIC_DISPATCH(Multiply)(input, weights, tiles, in_channels, products);
}

void transform_output(const float* products, const Images& out, const Tiles& tiles, int64_t channel,
                      int64_t out_channels, const Epilogue<float>& epilogue) {
  HWY_DYNAMIC_DISPATCH(TransformOutput)(products, out, tiles, channel, out_channels, epilogue);
}

}  // namespace kaon::ops::winograd
#endif

#include "kaon/ops/nn/conv/kernels/winograd.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv/kernels/winograd.cpp"
// vectors are kept in arrays, so their size must be known
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::winograd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float a = 0.70710678118654752f, b = 1.4142135623730951f;  // with a^2 = 1/2, b^2 = 2, a^2 b^2 = 1

using D = hn::CappedTag<float, block>;
using V = hn::Vec<D>;
constexpr D d;
HWY_INLINE int64_t lanes() { return int64_t(hn::Lanes(d)); }

// out[i] = row i of B^T times in. Rows of points +-p are even(in) +- p odd(in).
HWY_INLINE void to_points(const V (&in)[4], V (&out)[4]) {
  out[0] = hn::Sub(in[0], in[2]);
  out[1] = hn::Add(in[2], in[1]);
  out[2] = hn::Sub(in[2], in[1]);
  out[3] = hn::Sub(in[3], in[1]);
}
HWY_INLINE void to_points(const V (&in)[6], V (&out)[6]) {
  const V two = hn::Set(d, 2.f), half = hn::Set(d, 0.5f), sum = hn::Set(d, 2.5f);
  const V even_a = hn::NegMulAdd(two, in[2], in[4]), odd_a = hn::NegMulAdd(two, in[1], in[3]);
  const V even_b = hn::NegMulAdd(half, in[2], in[4]), odd_b = hn::NegMulAdd(half, in[1], in[3]);
  out[0] = hn::NegMulAdd(sum, in[2], hn::Add(in[0], in[4]));
  out[1] = hn::MulAdd(hn::Set(d, a), odd_a, even_a);
  out[2] = hn::NegMulAdd(hn::Set(d, a), odd_a, even_a);
  out[3] = hn::MulAdd(hn::Set(d, b), odd_b, even_b);
  out[4] = hn::NegMulAdd(hn::Set(d, b), odd_b, even_b);
  out[5] = hn::NegMulAdd(sum, in[3], hn::Add(in[1], in[5]));
}

// out[i] = row i of A^T times in.
HWY_INLINE void from_points(const V (&in)[4], V (&out)[2]) {
  out[0] = hn::Add(in[0], hn::Add(in[1], in[2]));
  out[1] = hn::Add(in[3], hn::Sub(in[1], in[2]));
}
HWY_INLINE void from_points(const V (&in)[6], V (&out)[4]) {
  const V even_a = hn::Add(in[1], in[2]), odd_a = hn::Sub(in[1], in[2]);
  const V even_b = hn::Add(in[3], in[4]), odd_b = hn::Sub(in[3], in[4]);
  out[0] = hn::Add(in[0], hn::Add(even_a, even_b));
  out[1] = hn::MulAdd(hn::Set(d, a), odd_a, hn::Mul(hn::Set(d, b), odd_b));
  out[2] = hn::MulAdd(hn::Set(d, 0.5f), even_a, hn::Mul(hn::Set(d, 2.f), even_b));
  out[3] = hn::MulAdd(hn::Set(d, a / 2), odd_a, hn::MulAdd(hn::Set(d, 2 * b), odd_b, in[5]));
}

// The rows and columns of a tile's input that are inside the image: [begin, end).
struct Part {
  int64_t begin_row, end_row, begin_column, end_column;
};

// The input of a tile for one vector of channels, with zeros outside the part. All: the whole tile is inside.
template <int64_t Side, bool All>
HWY_INLINE void transform_window(const float* HWY_RESTRICT from, int64_t row_stride, int64_t column_stride,
                                 const Part& part, float* HWY_RESTRICT to, int64_t point_stride) {
  HWY_ALIGN float columns[Side][Side][block];
  V in[Side], out[Side];
  for (int64_t j = 0; j < Side; ++j) {
    const bool is_column = All || (j >= part.begin_column && j < part.end_column);
    for (int64_t i = 0; i < Side; ++i) {
      const bool is_there = is_column && (All || (i >= part.begin_row && i < part.end_row));
      in[i] = is_there ? hn::LoadU(d, from + i * row_stride + j * column_stride) : hn::Zero(d);
    }
    to_points(in, out);
    for (int64_t i = 0; i < Side; ++i) hn::Store(out[i], d, columns[i][j]);
  }
  for (int64_t i = 0; i < Side; ++i) {
    for (int64_t j = 0; j < Side; ++j) in[j] = hn::Load(d, columns[i][j]);
    to_points(in, out);
    for (int64_t j = 0; j < Side; ++j) hn::StoreU(out[j], d, to + (Side * i + j) * point_stride);
  }
}

// The position of a tile.
struct Place {
  int64_t image, y, x;  // of its first result
};

HWY_INLINE Place place_of(int64_t tile, int64_t size, const Images& out) {
  const int64_t across = (out.width + size - 1) / size, down = (out.height + size - 1) / size;
  return {tile / (across * down), tile / across % down * size, tile % across * size};
}

template <int64_t Size>
void transform_input(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels,
                     float* HWY_RESTRICT to) {
  constexpr int64_t side = Size + 2;
  const int64_t stride = input_stride(tiles.count, in_channels), row_stride = in.width * in.position_stride;
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
      if (is_inside) {
        transform_window<side, true>(from, row_stride, in.position_stride, part, column, stride);
      } else {
        transform_window<side, false>(from, row_stride, in.position_stride, part, column, stride);
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
      for (int64_t i = 0; i < block; ++i, ++x, w += panel) {
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
  for (int64_t point = 0; point < points(tiles.size); ++point) {
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

template <int64_t Size>
void transform_output(const float* HWY_RESTRICT products, const Images& out, const Tiles& tiles, int64_t channel,
                      int64_t out_channels, const Epilogue<float>& e) {
  constexpr int64_t side = Size + 2;
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
      const V scale = e.scale ? hn::LoadU(d, e.scale + c) : hn::Set(d, 1.f);
      const V shift = e.shift ? hn::LoadU(d, e.shift + c) : hn::Zero(d);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < side; ++j) in[j] = hn::Load(d, columns_done[i][j]);
        from_points(in, results);
        for (int64_t j = 0; j < Size; ++j) {
          if (j >= columns) break;
          const int64_t offset = at + i * row_stride + j * out.position_stride;
          V y = hn::MulAdd(results[j], scale, shift);
          if (e.addend) y = hn::Add(y, hn::LoadU(d, e.addend + offset));
          if (relu) y = hn::IfThenElse(hn::Lt(y, hn::Zero(d)), hn::Zero(d), y);  // NaN stays
          hn::StoreU(y, d, out.data + offset);
        }
      }
    }
  }
}

void TransformInput(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels, float* transformed) {
  if (tiles.size == 2) return transform_input<2>(in, out, tiles, in_channels, transformed);
  transform_input<4>(in, out, tiles, in_channels, transformed);
}

void TransformOutput(const float* products, const Images& out, const Tiles& tiles, int64_t channel,
                     int64_t out_channels, const Epilogue<float>& e) {
  if (tiles.size == 2) return transform_output<2>(products, out, tiles, channel, out_channels, e);
  transform_output<4>(products, out, tiles, channel, out_channels, e);
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops::winograd {

HWY_EXPORT(TransformInput);
HWY_EXPORT(Multiply);
HWY_EXPORT(TransformOutput);

namespace {

// The values of a filter's polynomial at the points, each divided by the product of its distances to the other points.
template <size_t Side>
using Values = std::array<std::array<double, 3>, Side>;  // G
constexpr double p = 0.70710678118654752, q = 1.4142135623730951;
constexpr Values<6> values_for_4{{{1, 0, 0},
                                  {-1 / 1.5, -p / 1.5, -0.5 / 1.5},
                                  {-1 / 1.5, p / 1.5, -0.5 / 1.5},
                                  {1 / 6., q / 6, 2 / 6.},
                                  {1 / 6., -q / 6, 2 / 6.},
                                  {0, 0, 1}}};
constexpr Values<4> values_for_2{{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}};

template <size_t Side>
void transform_filters(const Values<Side>& g, const float* w, int64_t in_channels, int64_t out_channels, float* to) {
  const auto transform = [&](const float* filter, float* first) {
    for (const auto& gi : g) {
      double row[3] = {};
      for (int j = 0; j < 3; ++j) row[j] = gi[0] * filter[j] + gi[1] * filter[3 + j] + gi[2] * filter[6 + j];
      for (const auto& gj : g) {
        *first = float(row[0] * gj[0] + row[1] * gj[1] + row[2] * gj[2]);
        first += in_channels * panel;
      }
    }
  };
  constexpr float zeros[9] = {};
  for (int64_t first = 0; first < out_channels; first += panel, to += int64_t(Side * Side) * in_channels * panel) {
    for (int64_t c = 0; c < in_channels; ++c) {
      for (int64_t k = 0; k < panel; ++k) {
        const bool is_there = first + k < out_channels;
        transform(is_there ? w + ((first + k) * in_channels + c) * 9 : zeros, to + c * panel + k);
      }
    }
  }
}

}  // namespace

void transform_weights(const float* w, int64_t size, int64_t in_channels, int64_t out_channels, float* transformed) {
  if (size == 2) return transform_filters(values_for_2, w, in_channels, out_channels, transformed);
  transform_filters(values_for_4, w, in_channels, out_channels, transformed);
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

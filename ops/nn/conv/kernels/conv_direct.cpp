#include "kaon/ops/nn/conv/kernels/conv_direct.h"

#include <algorithm>

#include "kaon/ops/kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv/kernels/conv_direct.cpp"
// vectors are kept in arrays, so their size must be known
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

// This part is compiled once, the rest for each target.
#ifndef KAON_OPS_NN_CONV_DIRECT_CPP
#define KAON_OPS_NN_CONV_DIRECT_CPP
namespace kaon::ops {

// What one result reads of `channels` consecutive channels of an image with border: runs of consecutive numbers.
// Distances in floats.
struct Patch {
  int64_t line;                       // between rows of the image
  int64_t rows, columns, length;      // runs, and the numbers of each
  int64_t row_stride, column_stride;  // between runs
  int64_t step_y, step_x;             // between results

  Patch(const ConvGeometry& g, int64_t channels)
      : line((g.in[1] + 2 * g.pad[1]) * g.in_channels),
        rows(g.kernel[0]),
        columns(channels == g.in_channels && g.dilate[1] == 1 ? 1 : g.kernel[1]),
        length(g.kernel[1] / columns * channels),
        row_stride(g.dilate[0] * line),
        column_stride(g.dilate[1] * g.in_channels),
        step_y(g.stride[0] * line),
        step_x(g.stride[1] * g.in_channels) {}
  int64_t size() const { return rows * columns * length; }
};

}  // namespace kaon::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, direct_block>;
using V = hn::Vec<D>;
constexpr D d;
HWY_INLINE int64_t lanes() { return int64_t(hn::Lanes(d)); }

// Vectors are taken by two, and by three at the end of an odd number: one alone has too few sums under way.
constexpr int most_vectors = 3;
HWY_INLINE int vectors_of_next(int64_t numbers) {
  const int64_t vectors = (numbers + lanes() - 1) / lanes();
  return int(vectors <= most_vectors ? vectors : 2);
}
// Sums of this many positions or taps by so many vectors stay in registers.
constexpr int most_sums(int vectors) { return std::min(14, (HWY_MAX_BYTES >= 64 ? 28 : 12) / vectors); }

int64_t VectorLanes() { return lanes(); }

// Calls f.operator()<n>() for n = `count`, which is in [1, Most].
template <int Most, class F>
HWY_INLINE void with_constant(int64_t count, F&& f) {
  if (count == Most) return f.template operator()<Most>();
  if constexpr (Most > 1) with_constant<Most - 1>(count, f);
}

// All of a vector's numbers, or `count` of them: masked moves are slow on some processors.
HWY_INLINE V load_some(const float* p, int64_t count) {
  return count == lanes() ? hn::LoadU(d, p) : load_n(d, p, size_t(count));
}
HWY_INLINE void store_some(V v, float* p, int64_t count) {
  if (count == lanes()) hn::StoreU(v, d, p);
  else store_n(d, v, p, size_t(count));
}

// Results at consecutive positions, of up to three vectors of filters: their sums over some of the channels.
struct Results {
  const float* x;  // the first one's patch
  int64_t width;   // positions in a row
  int64_t left;    // of them in the first one's row, from that one on
  float* y;
  int64_t stride;                   // of y
  const float* w[most_vectors];     // of each vector
  const float* soon[most_vectors];  // weights that are read when all positions have read these
  int64_t lines;                    // of those, for each run of these results
  const float* bias;
  int64_t channels;              // of the last vector
  bool is_first, is_last, relu;  // of the sums
};

template <int Positions, int Vectors>
void sum_results(const Patch& p, const Results& r) {
  const int64_t n = lanes();
  V sums[Vectors][Positions];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 16
    for (int i = 0; i < Positions; ++i) {
      const float* const y = r.y + i * r.stride + v * n;
      sums[v][i] = r.is_first ? hn::Zero(d) : load_some(y, v == Vectors - 1 ? r.channels : n);
    }
  }
  const float* x[Positions];
  int64_t left = r.left;
  x[0] = r.x;
#pragma GCC unroll 16
  for (int i = 1; i < Positions; ++i) {
    x[i] = x[i - 1] + p.step_x;
    if (--left == 0) x[i] += p.step_y - r.width * p.step_x, left = r.width;
  }
  int64_t at = 0, soon = 0;  // in the weights
  for (int64_t row = 0; row < p.rows; ++row) {
    int64_t first = row * p.row_stride;
    for (int64_t column = 0; column < p.columns; ++column, first += p.column_stride) {
      for (int64_t line = 0; line < r.lines; ++line, soon += direct_block) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; v += int(direct_block / n)) __builtin_prefetch(r.soon[v] + soon, 0, 2);
      }
      const int64_t end = first + p.length;
#pragma GCC unroll 2
      for (int64_t k = first; k < end; ++k, at += direct_block) {
        V w[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) w[v] = hn::LoadU(d, r.w[v] + at);
#pragma GCC unroll 16
        for (int i = 0; i < Positions; ++i) {
          const V value = hn::Set(d, x[i][k]);
#pragma GCC unroll 4
          for (int v = 0; v < Vectors; ++v) sums[v][i] = hn::MulAdd(value, w[v], sums[v][i]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
    const int64_t count = v == Vectors - 1 ? r.channels : n;
    V shift = hn::Zero(d);
    if (r.is_last && r.bias) shift = load_some(r.bias + v * n, count);
#pragma GCC unroll 16
    for (int i = 0; i < Positions; ++i) {
      float* const y = r.y + i * r.stride + v * n;
      V sum = hn::Add(sums[v][i], shift);
      if (r.is_last && r.relu) sum = hn::IfThenElse(hn::Lt(sum, hn::Zero(d)), hn::Zero(d), sum);  // NaN stays
      store_some(sum, y, count);
    }
  }
}

// The sums of `Vectors` vectors of filters at `rows` rows of results; r has those at the first position.
template <int Vectors>
void sum_rows(const ConvGeometry& g, const Patch& patch, int64_t rows, Results r) {
  constexpr int most = most_sums(Vectors);
  const int64_t width = g.out[1], positions = rows * width, groups = (positions + most - 1) / most;
  const int64_t of_most = positions % groups == 0 ? groups : positions % groups;  // groups; the others have one less
  const int64_t largest = (positions + groups - 1) / groups;
  r.width = width, r.stride = g.out_channels;
  r.lines = (patch.length + groups - 1) / groups;
  const float* row = r.x;
  int64_t column = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t count = largest - int64_t(group >= of_most);
    r.x = row + column * patch.step_x, r.left = width - column;
    with_constant<most>(count, [&]<int Positions>() { sum_results<Positions, Vectors>(patch, r); });
    r.y += count * r.stride;
    for (int v = 0; v < Vectors; ++v) r.soon[v] += r.lines * patch.rows * patch.columns * direct_block;
    for (column += count; column >= width; column -= width) row += patch.step_y;
  }
}

// Rows of results from the rows that they read, with their border. The sums over one block of channels are taken at all
// positions before those over the next one, so that the weights stay in cache.
void ForwardRows(const ConvGeometry& g, int64_t rows, const float* x, const float* w, const float* bias, bool relu,
                 float* y) {
  const int64_t channels = direct_channels(g), n = lanes(), filters = g.out_channels;
  const Patch patch(g, channels);
  const int64_t block = direct_block * patch.size();  // weights of one block of channels
  const auto weights = [&](int64_t filter, int64_t channel) {
    return w + (filter / direct_block * (g.in_channels / channels) + channel / channels) * block +
           filter % direct_block;
  };
  int vectors = 0;
  for (int64_t c = 0; c < filters; c += vectors * n) {
    vectors = vectors_of_next(filters - c);
    Results r{};
    r.bias = bias ? bias + c : nullptr, r.relu = relu;
    r.channels = std::min(filters - c - (vectors - 1) * n, n);
    for (int64_t channel = 0; channel < g.in_channels; channel += channels) {
      r.is_first = channel == 0, r.is_last = channel + channels == g.in_channels;
      for (int v = 0; v < vectors; ++v) {
        r.w[v] = weights(c + v * n, channel);
        r.soon[v] = r.is_last ? weights(c + (vectors + v) * n, 0) : weights(c + v * n, channel + channels);
      }
      r.x = x + channel, r.y = y + c;
      with_constant<most_vectors>(vectors, [&]<int Vectors>() { sum_rows<Vectors>(g, patch, rows, r); });
    }
  }
}

// Numbers at every position.
struct Factor {
  const float* first;
  int64_t row_step, step;  // between positions
};

// to[i * stride + j] += sum over all positions of a[i] * b[j], of `Vectors` vectors of b's numbers; the last one has
// `count`.
template <int Rows, int Vectors>
void sum_outer_products(int64_t height, int64_t width, const Factor& a, const Factor& b, size_t count, float* to,
                        int64_t stride) {
  const int64_t n = lanes(), last = (Vectors - 1) * n;
  V sums[Vectors][Rows];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[v][i] = hn::Zero(d);
  }
  for (int64_t row = 0; row < height; ++row) {
    const float *HWY_RESTRICT x = a.first + row * a.row_step, *HWY_RESTRICT y = b.first + row * b.row_step;
    for (int64_t column = 0; column < width; ++column, x += a.step, y += b.step) {
      V factors[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors - 1; ++v) factors[v] = hn::LoadU(d, y + v * n);
      factors[Vectors - 1] = load_n(d, y + last, count);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
        const V value = hn::Set(d, x[i]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sums[v][i] = hn::MulAdd(value, factors[v], sums[v][i]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i, to += stride) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors - 1; ++v) hn::StoreU(hn::Add(hn::LoadU(d, to + v * n), sums[v][i]), d, to + v * n);
    store_n(d, hn::Add(load_n(d, to + last, count), sums[Vectors - 1][i]), to + last, count);
  }
}

// The same for any number of a's numbers and of b's.
void add_outer_products(int64_t height, int64_t width, const Factor& a, int64_t rows, const Factor& b, int64_t columns,
                        float* to, int64_t stride) {
  const int64_t n = lanes();
  int taken = 0;
  for (int64_t j = 0; j < columns; j += taken * n) {
    taken = vectors_of_next(columns - j);
    const Factor some_b{b.first + j, b.row_step, b.step};
    const auto in_last = size_t(std::min(columns - j - (taken - 1) * n, n));
    with_constant<most_vectors>(taken, [&]<int Vectors>() {
      constexpr int most = most_sums(Vectors);
      const int64_t groups = (rows + most - 1) / most;
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t i = rows * group / groups, count = rows * (group + 1) / groups - i;
        const Factor some_a{a.first + i, a.row_step, a.step};
        with_constant<most>(count, [&]<int Rows>() {
          sum_outer_products<Rows, Vectors>(height, width, some_a, some_b, in_last, to + i * stride + j, stride);
        });
      }
    });
  }
}

// Adds the contribution of one image, with its border, to dw.
void BackwardWeightImage(const ConvGeometry& g, const float* dy, const float* x, bool filters_last, float* dw) {
  constexpr int64_t cached = 4096;  // floats of dy
  const Patch p(g, g.in_channels);
  const int64_t filters = g.out_channels, dy_row = g.out[1] * filters, runs = p.rows * p.columns;
  const int64_t rows_at_once = std::clamp<int64_t>(cached / dy_row, 1, g.out[0]);
  for (int64_t row = 0; row < g.out[0]; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, g.out[0] - row);
    const Factor head{dy + row * dy_row, dy_row, filters};
    for (int64_t i = 0; i < runs; ++i) {
      const float* const first = x + row * p.step_y + i / p.columns * p.row_stride + i % p.columns * p.column_stride;
      const Factor run{first, p.step_y, p.step_x};
      if (filters_last) {
        add_outer_products(rows, g.out[1], run, p.length, head, filters, dw + i * p.length * filters, filters);
      } else {
        add_outer_products(rows, g.out[1], head, filters, run, p.length, dw + i * p.length, runs * p.length);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ForwardRows);
HWY_EXPORT(BackwardWeightImage);
HWY_EXPORT(VectorLanes);

namespace {

// Of these rows with their border; 0 where they have none.
int64_t border_floats(const ConvGeometry& g, const ConvRows& rows) {
  if (rows.pad_before == 0 && rows.pad_after == 0 && g.pad[1] == 0) return 0;
  return (rows.pad_before + rows.in_rows + rows.pad_after) * (g.in[1] + 2 * g.pad[1]) * g.in_channels;
}

// These rows of an image with the border that they have: `x` itself where it needs none, or in `scratch`.
const float* with_border(const ConvGeometry& g, const ConvRows& rows, const float* x, float* scratch) {
  if (border_floats(g, rows) == 0) return x;
  const int64_t row = g.in[1] * g.in_channels, side = g.pad[1] * g.in_channels, line = row + 2 * side;
  float* to = std::fill_n(scratch, rows.pad_before * line, 0.f);
  for (int64_t i = 0; i < rows.in_rows; ++i) {
    to = std::fill_n(to, side, 0.f);
    to = std::copy_n(x + i * row, row, to);
    to = std::fill_n(to, side, 0.f);
  }
  std::fill_n(to, rows.pad_after * line, 0.f);
  return scratch;
}

}  // namespace

bool direct_fits(const ConvGeometry& g) {
  return g.axes == 2 && g.groups == 1 && g.in_channels > 0 && g.out_channels > 0 && g.out_positions() > 0;
}

int64_t direct_channels(const ConvGeometry& g) {
  constexpr int64_t cached = 80 * 1024 / int64_t(sizeof(float)) / direct_block;  // numbers of a filter
  const int64_t all = g.in_channels;
  if (g.out_channels % direct_block != 0 || g.taps() * all <= cached) return all;
  for (int64_t channels = std::min(all, cached / g.taps()); channels >= 16; --channels) {
    if (all % channels == 0) return channels;
  }
  return all;
}

namespace {
bool has_vectors_of_eight() { return HWY_DYNAMIC_DISPATCH(VectorLanes)() == 8; }  // AVX2
}  // namespace

// 1.1 to 1.5 times as fast as oneDNN, but not for windows of one pixel.
bool direct_pays_divided(const ConvGeometry& g) {
  return direct_fits(g) && has_vectors_of_eight() && g.in_channels >= 64 && g.out_channels >= 16 && g.taps() > 1;
}

// Measured with a relu fused. AVX-512: 1.2 to 2.3 times as fast as oneDNN for few channels, up to 1.1 for the others.
// AVX2: 0.3 to 0.9 for few channels whose filters fill vectors.
bool direct_pays_forward(const ConvGeometry& g) {
  if (!direct_fits(g)) return false;
  if (direct_pays_divided(g)) return true;
  if (g.in_channels <= 4) return !has_vectors_of_eight() || g.out_channels % 8 != 0;
  return g.in_channels < 32 && g.out_channels % direct_block != 0;
}

// oneDNN fills vectors up for filters and channels alike. With AVX2 its sums over many positions of few channels take
// 1.1 to 1.8 times as long.
bool direct_pays_backward_weight(const ConvGeometry& g) {
  if (!direct_fits(g)) return false;
  if (g.in_channels <= 4 || g.out_channels % direct_block != 0) return true;
  return has_vectors_of_eight() && g.taps() > 1 && g.in_channels >= 16 && g.in_channels <= 64 &&
         g.out_positions() >= 1000;
}

void direct_forward(const ConvGeometry& g, const ConvRows& rows, const float* x, const float* w, const float* bias,
                    bool relu, float* y) {
  const Scratch border(size_t(border_floats(g, rows)) * sizeof(float));
  const float* const from = with_border(g, rows, x, border.as<float>());
  HWY_DYNAMIC_DISPATCH(ForwardRows)(g, rows.out_rows, from, w, bias, relu, y);
}

bool direct_filters_last(const ConvGeometry& g) {
  const auto full = [](int64_t numbers) {  // part of their vectors that is used
    return double(numbers) / double((numbers + direct_block - 1) / direct_block * direct_block);
  };
  return full(g.out_channels) >= full(Patch(g, g.in_channels).length);
}

void direct_backward_weight(const ConvGeometry& g, int64_t images, const float* dy, const float* x, float* dw) {
  std::fill_n(dw, g.weights(), 0.f);
  const bool filters_last = direct_filters_last(g);
  const ConvRows rows = all_rows(g);
  const Scratch border(size_t(border_floats(g, rows)) * sizeof(float));
  for (int64_t i = 0; i < images; ++i) {
    const float* const image = with_border(g, rows, x + i * g.in_positions() * g.in_channels, border.as<float>());
    const float* const head = dy + i * g.out_positions() * g.out_channels;
    HWY_DYNAMIC_DISPATCH(BackwardWeightImage)(g, head, image, filters_last, dw);
  }
}

}  // namespace kaon::ops
#endif

// Winograd's transforms of the windows of tiles, on vectors of channels.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_WINOGRAD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_WINOGRAD_TILES_INL_H_
#undef KAON_OPS_WINOGRAD_TILES_INL_H_
#else
#define KAON_OPS_WINOGRAD_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kaon/ops/math/vector-inl.h"
#include "kaon/ops/nn/conv/kernels/winograd.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::winograd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float a = 0.70710678118654752f, b = 1.4142135623730951f;  // with a^2 = 1/2, b^2 = 2, a^2 b^2 = 1

using D = hn::CappedTag<float, block>;
using V = hn::Vec<D>;
inline constexpr D d;
HWY_INLINE int64_t lanes() { return int64_t(hn::Lanes(d)); }

// The next vector of channels, of which `left` are left; the last one may be a part.
HWY_INLINE V load_channels(const float* from, int64_t left) {
  return left >= lanes() ? hn::LoadU(d, from) : ops::HWY_NAMESPACE::load_n(d, from, size_t(left));
}
HWY_INLINE void store_channels(V v, float* to, int64_t left) {
  if (left >= lanes()) hn::StoreU(v, d, to);
  else ops::HWY_NAMESPACE::store_n(d, v, to, size_t(left));
}

// Calls f.operator()<size, taps>().
template <class F>
HWY_INLINE void with_filtering(const Filtering& filtering, F&& f) {
  if (filtering.taps == 5) return f.template operator()<2, 5>();
  if (filtering.size == 2) return f.template operator()<2, 3>();
  f.template operator()<4, 3>();
}

// The images' transform: out[i] = row i of B^T times in. Rows of points +-p are even(in) +- p odd(in).
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

// The rows and columns of a window that are inside the image: [begin, end).
struct Part {
  int64_t begin_row, end_row, begin_column, end_column;
};

// Applies to(in, out), of Window numbers to Side, to the columns and then to the rows of a window of one vector of
// channels, with zeros outside the part and for channels that there are not. All: the whole window is inside, and all
// of the vector's channels are there.
template <int64_t Window, int64_t Side, bool All, class To>
HWY_INLINE void transform_window(const float* HWY_RESTRICT from, int64_t row_stride, int64_t column_stride,
                                 const Part& part, int64_t channels, float* HWY_RESTRICT points, int64_t point_stride,
                                 To&& to) {
  HWY_ALIGN float columns[Side][Window][block];
  V in[Window], out[Side];
  for (int64_t j = 0; j < Window; ++j) {
    const bool is_column = All || (j >= part.begin_column && j < part.end_column);
    for (int64_t i = 0; i < Window; ++i) {
      const bool is_there = is_column && (All || (i >= part.begin_row && i < part.end_row));
      const float* const pixel = from + i * row_stride + j * column_stride;
      if (All) in[i] = hn::LoadU(d, pixel);
      else in[i] = is_there ? load_channels(pixel, channels) : hn::Zero(d);
    }
    to(in, out);
    for (int64_t i = 0; i < Side; ++i) hn::Store(out[i], d, columns[i][j]);
  }
  for (int64_t i = 0; i < Side; ++i) {
    for (int64_t j = 0; j < Window; ++j) in[j] = hn::Load(d, columns[i][j]);
    to(in, out);
    for (int64_t j = 0; j < Side; ++j) hn::StoreU(out[j], d, points + (Side * i + j) * point_stride);
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

}  // namespace kaon::ops::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// The parts of attention on vectors: products of tiles, rows of scores.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ATTENTION_TILE_INL_H_
#undef KAON_OPS_ATTENTION_TILE_INL_H_
#else
#define KAON_OPS_ATTENTION_TILE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kaon/ops/math/vector-inl.h"
#include "kaon/ops/nn/attention/kernels/attention_call.h"
#include "kaon/ops/random/kernels/random_words.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tiles of two vectors by this many rows stay in registers.
inline constexpr int tile_rows = HWY_MAX_BYTES >= 64 ? 12 : 6;
template <class A>
HWY_INLINE int64_t tile_width() {
  return 2 * int64_t(hn::Lanes(hn::ScalableTag<A>()));
}
template <class A>
HWY_INLINE int64_t to_vectors(int64_t n) {  // rounded up
  const int64_t lanes = tile_width<A>() / 2;
  return (n + lanes - 1) / lanes * lanes;
}

// a(r, k) is at data[r * row + k * step].
template <class A>
struct LeftSide {
  const A* data;
  int64_t row, step;
};

// C (tile_rows, vectors) = a b + factor C; b (depth, vectors) and C with rows so far apart. factors: one for each row;
// null: 1 if `add`, else C is not read.
template <int Vectors, class A>
HWY_NOINLINE void multiply_panel(const LeftSide<A>& a, const A* HWY_RESTRICT b, int64_t b_row, int64_t depth,
                                 const A* factors, bool add, A* HWY_RESTRICT c, int64_t c_row) {
  const hn::ScalableTag<A> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V low[tile_rows], high[tile_rows];
#pragma GCC unroll 16
  for (int r = 0; r < tile_rows; ++r) low[r] = high[r] = hn::Zero(d);
  const A* first = a.data;
  const int64_t row = a.row, step = a.step;
  for (int64_t k = 0; k < depth; ++k, first += step, b += b_row) {
    const V b0 = hn::LoadU(d, b), b1 = Vectors == 2 ? hn::LoadU(d, b + lanes) : b0;
    const A* four = first;  // four rows at a time share an address
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; ++r) {
      if (r > 0 && r % 4 == 0) four += 4 * row;
      const V value = hn::Set(d, four[r % 4 * row]);
      low[r] = hn::MulAdd(value, b0, low[r]);
      if (Vectors == 2) high[r] = hn::MulAdd(value, b1, high[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < tile_rows; ++r) {
    A* const to = c + r * c_row;
    if (factors) {
      const V factor = hn::Set(d, factors[r]);
      low[r] = hn::MulAdd(factor, hn::LoadU(d, to), low[r]);
      if (Vectors == 2) high[r] = hn::MulAdd(factor, hn::LoadU(d, to + lanes), high[r]);
    } else if (add) {
      low[r] = hn::Add(hn::LoadU(d, to), low[r]);
      if (Vectors == 2) high[r] = hn::Add(hn::LoadU(d, to + lanes), high[r]);
    }
    hn::StoreU(low[r], d, to);
    if (Vectors == 2) hn::StoreU(high[r], d, to + lanes);
  }
}

// The right side of a product: rows of `width` numbers, a multiple of a vector, side by side in panels of tile_width
// that are `panel` numbers apart.
template <class A>
struct RightSide {
  const A* data;
  int64_t row, panel, width;
};

template <class A>
HWY_INLINE void multiply(const LeftSide<A>& a, const RightSide<A>& b, int64_t depth,
                         const std::type_identity_t<A>* factors, bool add, A* c, int64_t c_row) {
  const int64_t width = tile_width<A>();
  for (int64_t at = 0, p = 0; at < b.width; at += width, ++p) {
    const A* const panel = b.data + p * b.panel;
    if (at + width <= b.width) {
      multiply_panel<2>(a, panel, b.row, depth, factors, add, c + at, c_row);
    } else {
      multiply_panel<1>(a, panel, b.row, depth, factors, add, c + at, c_row);
    }
  }
}

// Four rows of `from`, of as many numbers as are left in whole fours: each four numbers of a column become neighbours
// in `to`, whose rows are `width` apart. Returns how many columns were moved.
#if HWY_TARGET == HWY_SCALAR
template <class T>
HWY_INLINE int64_t turn_four(const T*, int64_t, int64_t, int64_t, float, float*) {
  return 0;
}
#else
template <class T>
HWY_INLINE int64_t turn_four(const T* from, int64_t row, int64_t depth, int64_t width, float factor,
                             float* HWY_RESTRICT to) {
  int64_t k = 0;
  const hn::FixedTag<float, 4> d;
  const auto scale = hn::Set(d, factor);
  for (; k + 4 <= depth; k += 4) {
    if (k % 16 == 0) {  // rows are short, and what lies in another cache is far: the next four are asked for meanwhile
      for (int64_t r = 4; r < 8; ++r) hwy::Prefetch(from + r * row + k);
    }
    const auto a = hn::Mul(load(d, from + k), scale), b = hn::Mul(load(d, from + row + k), scale);
    const auto c = hn::Mul(load(d, from + 2 * row + k), scale), e = hn::Mul(load(d, from + 3 * row + k), scale);
    const auto ab = hn::InterleaveLower(d, a, b), ce = hn::InterleaveLower(d, c, e);
    const auto upper_ab = hn::InterleaveUpper(d, a, b), upper_ce = hn::InterleaveUpper(d, c, e);
    float* const at = to + k * width;
    hn::StoreU(hn::ConcatLowerLower(d, ce, ab), d, at);
    hn::StoreU(hn::ConcatUpperUpper(d, ce, ab), d, at + width);
    hn::StoreU(hn::ConcatLowerLower(d, upper_ce, upper_ab), d, at + 2 * width);
    hn::StoreU(hn::ConcatUpperUpper(d, upper_ce, upper_ab), d, at + 3 * width);
  }
  return k;
}
#endif

// Rows of numbers as columns: to[k * width + r] = factor from[r * row + k] for r < count, and 0 for count <= r < width.
template <class T, class A>
void pack_columns(const T* from, int64_t row, int64_t count, int64_t depth, int64_t width, A factor,
                  A* HWY_RESTRICT to) {
  for (int64_t r = 0; r < count;) {
    const int64_t rows = r + 4 <= count ? 4 : 1;
    int64_t k = 0;
    if constexpr (std::is_same_v<A, float>) {
      if (rows == 4) k = turn_four(from + r * row, row, depth, width, factor, to + r);
    }
    for (; k < depth; ++k) {
      for (int64_t i = r; i < r + rows; ++i) to[k * width + i] = A(from[i * row + k]) * factor;
    }
    r += rows;
  }
  for (int64_t k = 0; count < width && k < depth; ++k) std::fill(to + k * width + count, to + (k + 1) * width, A(0));
}

// Rows as they are, padded with zeros to `width`, a multiple of a vector.
template <class T, class A>
void pack_rows(const T* from, int64_t count, int64_t depth, int64_t width, A* HWY_RESTRICT to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t r = 0; r < count; ++r, to += width, from += depth) {
    for (int64_t k = 0; k < depth; k += lanes) {
      hn::StoreU(k + lanes <= depth ? load(d, from + k) : load_n(d, from + k, size_t(depth - k)), d, to + k);
    }
  }
}

// f(vector, position, lanes that count) for a row of n numbers; lanes that do not count are 0.
template <class A, class F>
HWY_INLINE void for_scores(const A* row, int64_t n, F f) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) f(hn::LoadU(d, row + j), j, lanes);
  if (j < n) f(load_n(d, row + j, size_t(n - j)), j, n - j);
}

// Applies the mask to n scores, of which the first one's mask is at `at`: adds it, or makes those -infinity that it
// excludes. `scores` has room for whole vectors.
template <class T, class A>
void apply_mask(const AttentionMask& mask, int64_t at, int64_t n, A* HWY_RESTRICT scores) {
  const hn::ScalableTag<A> d;
  const int64_t step = mask.strides[3];
  if (mask.is_boolean) {
    const bool* const allowed = static_cast<const bool*>(mask.data) + at;
    for (int64_t j = 0; j < n; ++j) scores[j] = allowed[j * step] ? scores[j] : -std::numeric_limits<A>::infinity();
    return;
  }
  const T* const added = static_cast<const T*>(mask.data) + at;
  for_scores(scores, n, [&](auto s, int64_t j, int64_t count) HWY_ATTR {
    const auto m = step == 0                        ? hn::Set(d, A(*added))
                   : count == int64_t(hn::Lanes(d)) ? load(d, added + j)
                                                    : load_n(d, added + j, size_t(count));
    hn::StoreU(hn::Add(s, m), d, scores + j);
  });
}

// The factors of n <= 256 weights of a row, of the keys from `from` on, a multiple of 4.
template <class A>
void draw_factors(const AttentionDropout& dropout, int64_t row, int64_t from, int64_t n, A* HWY_RESTRICT factors) {
  HWY_ALIGN uint32_t words[256];
  random_words(dropout.key, uint64_t(row * dropout.row_words + from) / 4, (n + 3) / 4, words);
  const A kept = A(dropout.factor);
  const uint32_t threshold = dropout.threshold;
  for (int64_t j = 0; j < n; ++j) factors[j] = words[j] < threshold ? A(0) : kept;
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle

#include "kaon/ops/linalg/kernels/gemv.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/linalg/kernels/gemv.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[0..3] = the sums of the lanes of a, b, c and d: one transposition instead of four reductions.
template <class D, class V>
HWY_INLINE void sum_lanes_of_four(D d, V a, V b, V c, V e, float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  out[0] = hn::GetLane(a), out[1] = hn::GetLane(b), out[2] = hn::GetLane(c), out[3] = hn::GetLane(e);
#else
  const hn::Repartition<double, D> pairs;
  const hn::Full128<float> quad;
  const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab2 = hn::BitCast(pairs, ab), ce2 = hn::BitCast(pairs, ce);
  const V sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab2, ce2)),
                         hn::BitCast(d, hn::InterleaveUpper(pairs, ab2, ce2)));
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(sums, d, lanes);
  auto total = hn::Load(quad, lanes);
  for (size_t i = 4; i < hn::Lanes(d); i += 4) total = hn::Add(total, hn::Load(quad, lanes + i));
  hn::StoreU(total, quad, out);
#endif
}

// The whole vectors of one row: four accumulators hide the latency of the multiply-add.
template <class D>
HWY_INLINE hn::Vec<D> row_lanes(D d, const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, int64_t columns) {
  const int64_t n = int64_t(hn::Lanes(d));
  auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
  int64_t k = 0;
  for (; k + 4 * n <= columns; k += 4 * n) {
    a0 = hn::MulAdd(hn::LoadU(d, x + k), hn::LoadU(d, w + k), a0);
    a1 = hn::MulAdd(hn::LoadU(d, x + k + n), hn::LoadU(d, w + k + n), a1);
    a2 = hn::MulAdd(hn::LoadU(d, x + k + 2 * n), hn::LoadU(d, w + k + 2 * n), a2);
    a3 = hn::MulAdd(hn::LoadU(d, x + k + 3 * n), hn::LoadU(d, w + k + 3 * n), a3);
  }
  for (; k + n <= columns; k += n) a0 = hn::MulAdd(hn::LoadU(d, x + k), hn::LoadU(d, w + k), a0);
  return hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
}

// Four rows side by side load x once for the four: the processor then has W to load and little else, and reads it at
// the speed of its second-level cache. Row after row takes 1.2 times as long.
template <class D>
HWY_INLINE void four_rows(D d, const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, float* HWY_RESTRICT y,
                          int64_t columns) {
  const int64_t n = int64_t(hn::Lanes(d));
  const float *const w1 = w + columns, *const w2 = w1 + columns, *const w3 = w2 + columns;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t k = 0;
  for (; k + 2 * n <= columns; k += 2 * n) {
    const auto a = hn::LoadU(d, x + k), b = hn::LoadU(d, x + k + n);
    s0 = hn::MulAdd(b, hn::LoadU(d, w + k + n), hn::MulAdd(a, hn::LoadU(d, w + k), s0));
    s1 = hn::MulAdd(b, hn::LoadU(d, w1 + k + n), hn::MulAdd(a, hn::LoadU(d, w1 + k), s1));
    s2 = hn::MulAdd(b, hn::LoadU(d, w2 + k + n), hn::MulAdd(a, hn::LoadU(d, w2 + k), s2));
    s3 = hn::MulAdd(b, hn::LoadU(d, w3 + k + n), hn::MulAdd(a, hn::LoadU(d, w3 + k), s3));
  }
  for (; k + n <= columns; k += n) {
    const auto a = hn::LoadU(d, x + k);
    s0 = hn::MulAdd(a, hn::LoadU(d, w + k), s0), s1 = hn::MulAdd(a, hn::LoadU(d, w1 + k), s1);
    s2 = hn::MulAdd(a, hn::LoadU(d, w2 + k), s2), s3 = hn::MulAdd(a, hn::LoadU(d, w3 + k), s3);
  }
  sum_lanes_of_four(d, s0, s1, s2, s3, y);
}

#if HWY_TARGET != HWY_SCALAR
// The same four rows where each begins `offset` elements behind a vector's boundary, as in a file that was mapped, and
// ends as far behind one: W is loaded in whole aligned vectors, of which the first and the last are shared with the
// neighbours. A load across two lines of the cache takes as long as two. Element k is added in lane (k + offset) mod n
// in the same order as above, and the lanes are turned back at the end: the sums are the same to the bit.
template <class D>
HWY_INLINE void four_offset_rows(D d, const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, float* HWY_RESTRICT y,
                                 int64_t columns, int64_t offset) {
  const int64_t n = int64_t(hn::Lanes(d));
  const auto behind = hn::FirstN(d, size_t(offset)), ahead = hn::Not(behind);
  w -= offset, x -= offset;
  const float *const w1 = w + columns, *const w2 = w1 + columns, *const w3 = w2 + columns;
  const auto first = hn::MaskedLoad(ahead, d, x);
  const auto zero = hn::Zero(d);
  auto s0 = hn::MulAdd(first, hn::MaskedLoad(ahead, d, w), zero);
  auto s1 = hn::MulAdd(first, hn::MaskedLoad(ahead, d, w1), zero);
  auto s2 = hn::MulAdd(first, hn::MaskedLoad(ahead, d, w2), zero);
  auto s3 = hn::MulAdd(first, hn::MaskedLoad(ahead, d, w3), zero);
  int64_t k = n;
  for (; k < columns; k += n) {
    const auto a = hn::LoadU(d, x + k);
    s0 = hn::MulAdd(a, hn::Load(d, w + k), s0), s1 = hn::MulAdd(a, hn::Load(d, w1 + k), s1);
    s2 = hn::MulAdd(a, hn::Load(d, w2 + k), s2), s3 = hn::MulAdd(a, hn::Load(d, w3 + k), s3);
  }
  const auto last = hn::MaskedLoad(behind, d, x + k);
  s0 = hn::MulAdd(last, hn::MaskedLoad(behind, d, w + k), s0);
  s1 = hn::MulAdd(last, hn::MaskedLoad(behind, d, w1 + k), s1);
  s2 = hn::MulAdd(last, hn::MaskedLoad(behind, d, w2 + k), s2);
  s3 = hn::MulAdd(last, hn::MaskedLoad(behind, d, w3 + k), s3);
  HWY_ALIGN int32_t turn[HWY_MAX_BYTES / sizeof(int32_t)];
  for (int64_t i = 0; i < n; ++i) turn[i] = int32_t((i + offset) & (n - 1));
  const auto turned = hn::SetTableIndices(d, turn);
  sum_lanes_of_four(d, hn::TableLookupLanes(s0, turned), hn::TableLookupLanes(s1, turned),
                    hn::TableLookupLanes(s2, turned), hn::TableLookupLanes(s3, turned), y);
}
#endif

template <class D>
HWY_INLINE void gemv_rows(D d, const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, const float* HWY_RESTRICT bias,
                          float* HWY_RESTRICT y, int64_t rows, int64_t columns) {
  const int64_t n = int64_t(hn::Lanes(d));
  const int64_t whole = columns / n * n;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const int64_t offset = int64_t(reinterpret_cast<uintptr_t>(w) / sizeof(float) & uintptr_t(n - 1));
  if (offset && whole == columns && columns >= 16 * n) {  // short rows gain less than turning the lanes costs
    for (; i + 4 <= rows; i += 4) four_offset_rows(d, w + i * columns, x, y + i, columns, offset);
  }
#endif
  for (; i + 4 <= rows; i += 4) four_rows(d, w + i * columns, x, y + i, columns);
  for (; i < rows; ++i) y[i] = hn::GetLane(hn::SumOfLanes(d, row_lanes(d, w + i * columns, x, columns)));
  for (i = 0; i < rows; ++i) {
    float sum = y[i];
    for (int64_t k = whole; k < columns; ++k) sum += x[k] * w[i * columns + k];
    y[i] = bias ? sum + bias[i] : sum;
  }
}

void Gemv(const float* w, const float* x, const float* bias, float* y, int64_t rows, int64_t columns) {
  gemv_rows(hn::ScalableTag<float>(), w, x, bias, y, rows, columns);
}

// Columns [first, last) of x W: the accumulators of a panel stay in registers while W is walked down.
void GemvTransposed(const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, float* HWY_RESTRICT y, int64_t rows,
                    int64_t columns, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const int64_t n = int64_t(hn::Lanes(d));
  int64_t j = first;
  for (; j + 8 * n <= last; j += 8 * n) {
    auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
    const float* HWY_RESTRICT p = w + j;
    for (int64_t i = 0; i < rows; ++i, p += columns) {
      const auto xi = hn::Set(d, x[i]);
      a0 = hn::MulAdd(xi, hn::LoadU(d, p), a0);
      a1 = hn::MulAdd(xi, hn::LoadU(d, p + n), a1);
      a2 = hn::MulAdd(xi, hn::LoadU(d, p + 2 * n), a2);
      a3 = hn::MulAdd(xi, hn::LoadU(d, p + 3 * n), a3);
      a4 = hn::MulAdd(xi, hn::LoadU(d, p + 4 * n), a4);
      a5 = hn::MulAdd(xi, hn::LoadU(d, p + 5 * n), a5);
      a6 = hn::MulAdd(xi, hn::LoadU(d, p + 6 * n), a6);
      a7 = hn::MulAdd(xi, hn::LoadU(d, p + 7 * n), a7);
    }
    hn::StoreU(a0, d, y + j), hn::StoreU(a1, d, y + j + n), hn::StoreU(a2, d, y + j + 2 * n);
    hn::StoreU(a3, d, y + j + 3 * n), hn::StoreU(a4, d, y + j + 4 * n), hn::StoreU(a5, d, y + j + 5 * n);
    hn::StoreU(a6, d, y + j + 6 * n), hn::StoreU(a7, d, y + j + 7 * n);
  }
  for (; j + n <= last; j += n) {
    auto a = hn::Zero(d);
    const float* HWY_RESTRICT p = w + j;
    for (int64_t i = 0; i < rows; ++i, p += columns) a = hn::MulAdd(hn::Set(d, x[i]), hn::LoadU(d, p), a);
    hn::StoreU(a, d, y + j);
  }
  for (; j < last; ++j) {
    float a = 0;
    for (int64_t i = 0; i < rows; ++i) a += x[i] * w[i * columns + j];
    y[j] = a;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Gemv);
HWY_EXPORT(GemvTransposed);

namespace {
constexpr int64_t piece_weights = 1 << 18;  // 1 MB of weights: some 20 us when they come from memory
}

void gemv(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns,
          Epilogue<float> epilogue) {
  const float* const bias = epilogue.take_bias();
  const auto piece = [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(Gemv)
    (w + begin * columns, x, bias ? bias + begin : nullptr, y + begin, end - begin, columns);
    finish_rows(y + begin, 0, y + begin, 0, 1, end - begin, epilogue.at(begin, begin));
  };
  // whole groups of four rows: how a row is summed does not depend on where pieces begin
  const int64_t grain = std::max<int64_t>(1, piece_weights / std::max<int64_t>(columns, 1) / 4) * 4;
  if (rows <= grain) {
    piece(0, rows);
  } else {
    run.parallel_for(rows, grain, piece);
  }
}

void gemv_transposed(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns) {
  const auto piece = [&](int64_t begin, int64_t end) { gemv_transposed(w, x, y, rows, columns, begin, end); };
  const int64_t grain = std::max<int64_t>(128, piece_weights / std::max<int64_t>(rows, 1) / 128 * 128);
  if (columns <= grain) {
    piece(0, columns);
  } else {
    run.parallel_for(columns, grain, piece);
  }
}

void gemv_transposed(const float* w, const float* x, float* y, int64_t rows, int64_t columns, int64_t first,
                     int64_t last) {
  HWY_DYNAMIC_DISPATCH(GemvTransposed)(w, x, y, rows, columns, first, last);
}

}  // namespace kaon::ops
#endif

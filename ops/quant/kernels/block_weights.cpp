#include "kaon/ops/quant/kernels/block_weights.h"

#include <algorithm>
#include <cstring>

#include "kaon/ops/kernels/scratch.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/quant/kernels/block_weights.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Codes are read as words of 32 bits, one for each lane, which hold `32 / bits` codes each: part t of a vector of words
// is the t-th code of every lane. x is reordered once so that part t of a group of words meets a vector of x.

template <class D>
using WordTag = hn::RebindToUnsigned<D>;

// The n words at `bytes`, of which `count` are there; 0 for others.
template <class D>
HWY_INLINE hn::Vec<WordTag<D>> LoadWords(D d, const uint8_t* bytes, int64_t count) {
  const WordTag<D> du;
#if HWY_TARGET == HWY_SCALAR
  (void)d, (void)count;  // 1
  uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return hn::Set(du, word);
#else
  const hn::Repartition<uint8_t, D> bytes_tag;
  if (count >= int64_t(hn::Lanes(d))) return hn::BitCast(du, hn::LoadU(bytes_tag, bytes));
  HWY_ALIGN uint8_t own[HWY_MAX_BYTES] = {};
  std::memcpy(own, bytes, size_t(count) * 4);
  return hn::BitCast(du, hn::Load(bytes_tag, own));
#endif
}

// What belongs to the blocks of a row, by lane: each block has `lanes` of them, a power of two.
template <class D>
class OfBlocks {
 public:
  OfBlocks(D d, int64_t lanes) : lanes_(lanes) {
    HWY_ALIGN int32_t index[HWY_MAX_BYTES / sizeof(int32_t)];
    for (size_t i = 0; i < hn::Lanes(d); ++i) index[i] = int32_t(int64_t(i) / lanes);
    const hn::RebindToSigned<D> di;
    index_ = hn::Load(di, index);
    for (shift_ = 0; (int64_t(1) << shift_) < lanes; ++shift_) continue;
  }
  // For the lanes from `first` on, of numbers that end at `end`.
  HWY_INLINE hn::Vec<D> At(D d, const float* of_row, int64_t first, const float* end) const {
    const float* const at = of_row + (first >> shift_);
    const auto n = int64_t(hn::Lanes(d));
    if (lanes_ >= n) return hn::Set(d, *at);
    if (lanes_ == 1 && end - at >= n) return hn::LoadU(d, at);
    if (end - at >= n) return hn::TableLookupLanes(hn::LoadU(d, at), hn::IndicesFromVec(d, index_));
    HWY_ALIGN float own[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(own, at, size_t(end - at) * sizeof(float));
    return hn::TableLookupLanes(hn::Load(d, own), hn::IndicesFromVec(d, index_));
  }

 private:
  int64_t lanes_;
  int shift_;
  hn::Vec<hn::RebindToSigned<D>> index_;
};

// Codes as numbers: as they are where zero points are subtracted later, else less 2^(Bits - 1).
template <int Bits, bool HasZeros, class D>
struct Decoder {
  using V = hn::Vec<D>;
  using W = hn::Vec<WordTag<D>>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // the lookup reads four bits of each index: nothing is masked, and nothing converted
  static constexpr bool looks_up = Bits == 4;
#else
  static constexpr bool looks_up = false;
#endif
  V table;

  explicit HWY_INLINE Decoder(D d) : table(hn::Zero(d)) {
    if constexpr (looks_up) table = hn::Iota(d, HasZeros ? 0.f : -8.f);
  }

  // Words that Part() takes.
  static HWY_INLINE W Prepared(W words) {
    if constexpr (HasZeros || looks_up) return words;
    constexpr uint32_t top = Bits == 8 ? 0x80808080u : Bits == 4 ? 0x88888888u : 0xaaaaaaaau;
    return hn::Xor(words, hn::Set(WordTag<D>(), top));  // then q - 2^(Bits - 1) has Bits bits with a sign
  }

  template <int T>
  HWY_INLINE V Part([[maybe_unused]] D d, W words) const {
    [[maybe_unused]] const hn::RebindToSigned<D> di;
    constexpr int below = T * Bits, above = 32 - Bits - below;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    if constexpr (looks_up) {
      return hn::TableLookupLanes(table, hn::Indices512<float>{hn::ShiftRight<below>(words).raw});
    }
#endif
    if constexpr (HasZeros) {
      const auto code = hn::ShiftRight<32 - Bits>(hn::ShiftLeft<above>(words));
      return hn::ConvertTo(d, hn::BitCast(di, code));
    } else {
      return hn::ConvertTo(d, hn::ShiftRight<32 - Bits>(hn::BitCast(di, hn::ShiftLeft<above>(words))));
    }
  }
};

// Parts T and later of Rows rows of W with M rows of x, whose parts are `stride` apart by row. One row of x: into two
// sums of each row of W, which hide the latency of additions. Several: with scaled weights, into one sum each.
template <int T, int Bits, bool HasZeros, int Rows, int M, class D, class V, class W>
HWY_INLINE void AddParts(D d, const Decoder<Bits, HasZeros, D>& decoder, const W* words, const V* zeros,
                         const V* scales, const float* HWY_RESTRICT x, int64_t stride, V* sums) {
  if constexpr (T < 32 / Bits) {
    const int64_t at = T * int64_t(hn::Lanes(d));
    for (int r = 0; r < Rows; ++r) {
      V w = decoder.template Part<T>(d, words[r]);
      if constexpr (HasZeros) w = hn::Sub(w, zeros[r]);
      if constexpr (M == 1) {
        sums[2 * r + T % 2] = hn::MulAdd(w, hn::LoadU(d, x + at), sums[2 * r + T % 2]);
      } else {
        w = hn::Mul(w, scales[r]);
        for (int i = 0; i < M; ++i) {
          sums[r * M + i] = hn::MulAdd(w, hn::LoadU(d, x + i * stride + at), sums[r * M + i]);
        }
      }
    }
    AddParts<T + 1, Bits, HasZeros, Rows, M>(d, decoder, words, zeros, scales, x, stride, sums);
  }
}

// What the products of some rows read.
struct RowJob {
  const BlockWeights* w;
  const float *zeros, *zeros_end;  // of the rows from `first` on
  int64_t first;
  const float* x;
  int64_t stride;
};

// y[i * y_stride + r] for Rows rows of W and M of x.
template <int Bits, bool HasZeros, int Rows, int M>
HWY_INLINE void RowProducts(const RowJob& job, float* y, int64_t y_stride) {
  using D = hn::ScalableTag<float>;
  const D d;
  using V = hn::Vec<D>;
  using W = hn::Vec<WordTag<D>>;
  constexpr int parts = 32 / Bits;
  const BlockWeights& w = *job.w;
  const auto n = int64_t(hn::Lanes(d));
  const int64_t bytes = w.row_bytes(), lanes = bytes / 4, blocks = w.blocks();
  const Decoder<Bits, HasZeros, D> decoder(d);
  const OfBlocks<D> of_blocks(d, w.block * Bits / 32);
  const uint8_t* const codes = w.codes + job.first * bytes;
  const float *const scales = w.scales + job.first * blocks, *const scales_end = w.scales + w.rows * blocks;
  V totals[Rows * M];
  for (V& v : totals) v = hn::Zero(d);
  const float* x = job.x;
  for (int64_t l = 0; l < lanes; l += n, x += parts * n) {
    W words[Rows];
    V zero[Rows], scale[Rows];
    for (int r = 0; r < Rows; ++r) {
      words[r] = decoder.Prepared(LoadWords(d, codes + r * bytes + l * 4, lanes - l));
      scale[r] = of_blocks.At(d, scales + r * blocks, l, scales_end);
      if constexpr (HasZeros) zero[r] = of_blocks.At(d, job.zeros + r * blocks, l, job.zeros_end);
      if (lanes - l < n) {  // the next row follows, which may have NaN
        const auto own = hn::FirstN(d, size_t(lanes - l));
        scale[r] = hn::IfThenElseZero(own, scale[r]);
        if constexpr (HasZeros) zero[r] = hn::IfThenElseZero(own, zero[r]);
      }
    }
    if constexpr (M == 1) {
      V sums[2 * Rows];
      for (V& v : sums) v = hn::Zero(d);
      AddParts<0, Bits, HasZeros, Rows, M>(d, decoder, words, zero, scale, x, job.stride, sums);
      for (int r = 0; r < Rows; ++r) {
        totals[r] = hn::MulAdd(hn::Add(sums[2 * r], sums[2 * r + 1]), scale[r], totals[r]);
      }
    } else {
      AddParts<0, Bits, HasZeros, Rows, M>(d, decoder, words, zero, scale, x, job.stride, totals);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int i = 0; i < M; ++i) y[i * y_stride + r] = hn::GetLane(hn::SumOfLanes(d, totals[r * M + i]));
  }
}

// The codes of `count` bytes, one in each byte.
HWY_INLINE void SpreadCodes(const uint8_t* HWY_RESTRICT bytes, int bits, int64_t count, uint8_t* HWY_RESTRICT to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<uint8_t> d;
  const hn::Full128<uint16_t> pairs;
  const auto low = hn::Set(d, 15);
  for (; bits == 4 && i + 16 <= count; i += 16) {
    const auto v = hn::LoadU(d, bytes + i);
    const auto first = hn::And(v, low);
    const auto second = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(pairs, v))), low);
    hn::StoreU(hn::InterleaveLower(d, first, second), d, to + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, first, second), d, to + 2 * i + 16);
  }
#endif
  const int in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  for (; i < count; ++i) {
    for (int k = 0; k < in_a_byte; ++k) to[i * in_a_byte + k] = uint8_t(bytes[i] >> (k * bits) & mask);
  }
}

// (codes - zero) scale.
HWY_INLINE void ScaleCodes(const uint8_t* HWY_RESTRICT codes, int64_t count, float zero, float scale,
                           float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto n = int64_t(hn::Lanes(d));
  const auto zeros = hn::Set(d, zero), scales = hn::Set(d, scale);
  int64_t j = 0;
  for (; j + n <= count; j += n) {
    const auto code = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes, codes + j)));
    hn::StoreU(hn::Mul(hn::Sub(code, zeros), scales), d, to + j);
  }
  for (; j < count; ++j) to[j] = (float(int(codes[j])) - zero) * scale;
}

// The zero points of rows [begin, end), which are packed: (end - begin, blocks()).
HWY_INLINE void UnpackZeros(const BlockWeights& w, int64_t begin, int64_t end, float* to) {
  constexpr int64_t part = 64;  // bytes
  const int in_a_byte = 8 / w.bits;
  for (int64_t r = begin; r < end; ++r, to += w.blocks()) {
    const uint8_t* const own = w.packed_zeros + r * w.zero_bytes();
    for (int64_t b = 0; b < w.zero_bytes(); b += part) {
      HWY_ALIGN uint8_t codes[part * 4];
      SpreadCodes(own + b, w.bits, std::min(part, w.zero_bytes() - b), codes);
      const int64_t first = b * in_a_byte;
      ScaleCodes(codes, std::min(part * in_a_byte, w.blocks() - first), 0.f, 1.f, to + first);
    }
  }
}

template <int Bits, bool HasZeros, int Rows, int M>
HWY_INLINE void SomeProducts(const BlockWeights& w, const float* x, int64_t stride, int64_t m, int64_t row,
                             float* unpacked_zeros, float* y) {
  RowJob job{&w, nullptr, nullptr, row, x, stride};
  if constexpr (HasZeros) {
    if (w.zeros) {
      job.zeros = w.zeros + row * w.blocks(), job.zeros_end = w.zeros + w.rows * w.blocks();
    } else {
      UnpackZeros(w, row, row + Rows, unpacked_zeros);
      job.zeros = unpacked_zeros, job.zeros_end = unpacked_zeros + Rows * w.blocks();
    }
  }
  HWY_ALIGN float sums[M * Rows];
  for (int64_t i = 0; i < m; i += M, job.x += M * stride) {
    RowProducts<Bits, HasZeros, Rows, M>(job, sums, Rows);
    for (int64_t k = 0; k < std::min<int64_t>(M, m - i); ++k) {
      for (int r = 0; r < Rows; ++r) y[(i + k) * w.rows + row + r] = sums[k * Rows + r];
    }
  }
}

template <int Bits, bool HasZeros>
HWY_INLINE void ProductsOf(const BlockWeights& w, const float* x, int64_t stride, int64_t m, int64_t begin, int64_t end,
                           float* zeros, float* y) {
  int64_t r = begin;
  if (m == 1) {
    for (; r + 4 <= end; r += 4) SomeProducts<Bits, HasZeros, 4, 1>(w, x, stride, m, r, zeros, y);
    for (; r < end; ++r) SomeProducts<Bits, HasZeros, 1, 1>(w, x, stride, m, r, zeros, y);
  } else {
    for (; r + 2 <= end; r += 2) SomeProducts<Bits, HasZeros, 2, 4>(w, x, stride, m, r, zeros, y);
    for (; r < end; ++r) SomeProducts<Bits, HasZeros, 1, 4>(w, x, stride, m, r, zeros, y);
  }
}

// y[i, r] for the rows [begin, end) of W. `x` is reordered, its rows `stride` apart; `zeros` has room for four rows'.
void Products(const BlockWeights& w, const float* x, int64_t stride, int64_t m, int64_t begin, int64_t end,
              float* zeros, float* y) {
  const bool has_zeros = w.zeros || w.packed_zeros;
  const auto with = [&]<int Bits>() HWY_ATTR {
    if (has_zeros) {
      ProductsOf<Bits, true>(w, x, stride, m, begin, end, zeros, y);
    } else {
      ProductsOf<Bits, false>(w, x, stride, m, begin, end, zeros, y);
    }
  };
  if (w.bits == 2) with.template operator()<2>();
  if (w.bits == 4) with.template operator()<4>();
  if (w.bits == 8) with.template operator()<8>();
}

// Words in a group: each is a lane.
int64_t GroupLanes() { return int64_t(hn::Lanes(hn::ScalableTag<float>())); }

// `codes` and `zeros` have room for those of a row.
void UnpackRows(const BlockWeights& w, int64_t begin, int64_t end, uint8_t* codes, float* zeros, float* to) {
  const int64_t blocks = w.blocks();
  for (int64_t r = begin; r < end; ++r, to += w.columns) {
    const float* own = w.zeros ? w.zeros + r * blocks : nullptr;
    if (w.packed_zeros) UnpackZeros(w, r, r + 1, zeros), own = zeros;
    SpreadCodes(w.codes + r * w.row_bytes(), w.bits, w.row_bytes(), codes);
    for (int64_t b = 0; b < blocks; ++b) {
      ScaleCodes(codes + b * w.block, std::min(w.block, w.columns - b * w.block),
                 own ? own[b] : float(1 << (w.bits - 1)), w.scales[r * blocks + b], to + b * w.block);
    }
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Products);
HWY_EXPORT(GroupLanes);
HWY_EXPORT(UnpackRows);

namespace {

constexpr int64_t block_piece_weights = 1 << 18;  // 128 KB of codes of 4 bits, some 20 us

// Element j of a group of words is code j % parts of lane j / parts.
void reorder_row(const float* x, int64_t columns, int64_t parts, int64_t lanes, float* to) {
  for (int64_t g = 0; g < columns; g += parts * lanes) {
    const int64_t count = std::min(parts * lanes, columns - g);
    for (int64_t j = 0; j < count; ++j) to[g + j % parts * lanes + j / parts] = x[g + j];
  }
}

}  // namespace

void block_products(RunContext& run, const BlockWeights& w, const float* x, int64_t m, const float* bias, float* y) {
  const int64_t parts = 32 / w.bits, lanes = HWY_DYNAMIC_DISPATCH(GroupLanes)(), group = parts * lanes;
  const int64_t words = w.row_bytes() / 4, stride = (words + lanes - 1) / lanes * group;
  const int64_t rows = m == 1 ? 1 : (m + 3) / 4 * 4;  // several rows are multiplied by fours
  auto* const ordered = static_cast<float*>(run.workspace(size_t(rows * stride) * sizeof(float)));
  std::fill_n(ordered, rows * stride, 0.f);
  for (int64_t i = 0; i < m; ++i) reorder_row(x + i * w.columns, w.columns, parts, lanes, ordered + i * stride);
  // whole groups of rows: how a row is summed does not depend on where pieces begin
  const int64_t grain = std::max<int64_t>(1, block_piece_weights / std::max<int64_t>(w.columns, 1) / 4) * 4;
  run.parallel_for(w.rows, grain, [&](int64_t begin, int64_t end) {
    const Scratch zeros(w.packed_zeros ? size_t(4 * w.blocks()) * sizeof(float) : 0);
    HWY_DYNAMIC_DISPATCH(Products)(w, ordered, stride, m, begin, end, zeros.as<float>(), y);
    for (int64_t i = 0; bias && i < m; ++i) {
      for (int64_t r = begin; r < end; ++r) y[i * w.rows + r] += bias[r];
    }
  });
}

void unpack_rows(const BlockWeights& w, int64_t begin, int64_t end, float* to) {
  const Scratch zeros(w.packed_zeros ? size_t(w.blocks()) * sizeof(float) : 0), codes(size_t(w.blocks() * w.block));
  HWY_DYNAMIC_DISPATCH(UnpackRows)(w, begin, end, codes.as<uint8_t>(), zeros.as<float>(), to);
}

}  // namespace kaon::ops
#endif

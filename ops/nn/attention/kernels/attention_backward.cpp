#include "kaon/ops/nn/attention/kernels/attention_backward.h"

#include <algorithm>
#include <cstring>

#include "kaon/ops/kernels/scratch.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/attention/kernels/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/nn/attention/kernels/attention_tile-inl.h"

// This part is compiled once, the rest for each target.
#ifndef KAON_OPS_ATTENTION_BACKWARD_CPP
#define KAON_OPS_ATTENTION_BACKWARD_CPP
namespace kaon::ops {
namespace {

constexpr int64_t gradient_keys = 96;     // keys of a block: whole panels, and whole tiles of rows, of every target
constexpr int64_t gradient_queries = 48;  // queries of a block: whole tiles of rows
constexpr int64_t most_pieces = 32;       // of heads and keys, where that leaves gradient_piece keys for each
constexpr int64_t gradient_piece = 512;

int64_t pieces_of(int64_t total, int64_t part) { return (total + part - 1) / part; }

// What is prepared once for all blocks of keys, in arrays of the accumulating dtype. By blocks of queries and in
// columns of a tile of rows: scale * query, head. By rows padded to vectors: query, head. For each query: the sum of
// head * output.
struct Prepared {
  int64_t dim, value_dim;  // padded
  int64_t blocks;          // of the queries of a head
  int64_t pieces, piece;   // of the keys of a head, and the keys of one
  void *query_columns, *head_columns, *query_rows, *head_rows, *delta;
  void* d_query;  // (pieces, batch heads, n, dim), without the factor scale
};

}  // namespace
}  // namespace kaon::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// Block `block` of the queries of head `head` of batch * heads.
template <class T>
void prepare_block(const AttentionBackward& f, const Prepared& p, int64_t head, int64_t block) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t first = block * gradient_queries, count = std::min(gradient_queries, s.n - first);
  const int64_t row = head * s.n + first, at = (head * p.blocks + block) * gradient_queries;
  const T* const query = static_cast<const T*>(f.query) + row * s.dim;
  const T* const gradient = static_cast<const T*>(f.head) + row * s.value_dim;
  for (int64_t i = 0; i < count; i += tile_rows) {
    const int64_t rows = std::min<int64_t>(tile_rows, count - i);
    pack_columns(query + i * s.dim, s.dim, rows, s.dim, tile_rows, A(s.scale),
                 static_cast<A*>(p.query_columns) + (at + i) * s.dim);
    pack_columns(gradient + i * s.value_dim, s.value_dim, rows, s.value_dim, tile_rows, A(1),
                 static_cast<A*>(p.head_columns) + (at + i) * s.value_dim);
  }
  if (p.query_rows != f.query) pack_rows(query, count, s.dim, p.dim, static_cast<A*>(p.query_rows) + row * p.dim);
  if (p.head_rows != f.head) {
    pack_rows(gradient, count, s.value_dim, p.value_dim, static_cast<A*>(p.head_rows) + row * p.value_dim);
  }
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const T* output = static_cast<const T*>(f.output) + row * s.value_dim;
  for (int64_t i = 0; i < count; ++i, output += s.value_dim) {
    const T* const own = gradient + i * s.value_dim;
    auto sum = hn::Zero(d);
    for (int64_t k = 0; k < s.value_dim; k += lanes) {
      const size_t some = size_t(std::min(lanes, s.value_dim - k));
      sum = hn::MulAdd(load_n(d, own + k, some), load_n(d, output + k, some), sum);
    }
    static_cast<A*>(p.delta)[row + i] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// A block of keys and values, in columns for the scores and in rows for d_query, and the gradients that it collects.
template <class A>
struct KeyBlock {
  int64_t first, count;
  A *key_columns, *value_columns, *key_rows;
  A *d_key, *d_value;
};

// weights: factor e^(score - logsum) from scores; slopes: e^(score - logsum) (factor slope - delta) from slopes. Both 0
// where nothing is seen. Factors are read where some are dropped, else they are 1.
template <bool drops, class A>
void differentiate_row(A* weights, A* slopes, int64_t seen, int64_t most, A logsum, A delta, const A* factors) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto shift = hn::Set(d, logsum), mean = hn::Set(d, delta);
  for (int64_t j = 0; j < most; j += lanes) {
    const auto valid = hn::FirstN(d, size_t(std::clamp<int64_t>(seen - j, 0, lanes)));
    auto w = hn::IfThenElseZero(valid, exp_below(d, hn::Sub(hn::LoadU(d, weights + j), shift)));
    auto slope = hn::LoadU(d, slopes + j);
    if constexpr (drops) slope = hn::Mul(slope, hn::LoadU(d, factors + j));
    hn::StoreU(hn::IfThenElseZero(valid, hn::Mul(w, hn::Sub(slope, mean))), d, slopes + j);
    if constexpr (drops) w = hn::IfThenElseZero(valid, hn::Mul(w, hn::LoadU(d, factors + j)));
    hn::StoreU(w, d, weights + j);
  }
}

// What the queries of one block add to the gradients of a block of keys, and these keys to theirs.
template <class T>
void add_block(const AttentionBackward& f, const Prepared& p, const KeyBlock<accumulate_t<T>>& keys, int64_t head,
               int64_t block, accumulate_t<T>* d_query, accumulate_t<T>* weights, accumulate_t<T>* slopes) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t b = head / s.heads, h = head % s.heads, length = f.lengths[b], width = tile_width<A>();
  const int64_t first = block * gradient_queries, count = std::min(gradient_queries, s.n - first);
  const int64_t row = head * s.n + first, at = (head * p.blocks + block) * gradient_queries;
  const int64_t most = std::clamp<int64_t>(s.visible(first + count - 1, length) - keys.first, 0, keys.count);
  if (most == 0) return;
  const int64_t whole = pieces_of(most, width) * width;
  // the last tile of keys may reach behind the panels of those that are seen
  const int64_t cleared = to_vectors<A>(std::max(whole, pieces_of(most, tile_rows) * tile_rows));
  HWY_ALIGN A factors[gradient_keys + 64] = {};  // read as far as is cleared
  for (int64_t i = 0; i < count; i += tile_rows) {
    multiply(LeftSide<A>{static_cast<const A*>(p.query_columns) + (at + i) * s.dim, 1, tile_rows},
             RightSide<A>{keys.key_columns, width, width * s.dim, whole}, s.dim, nullptr, false,
             weights + i * gradient_keys, gradient_keys);
    multiply(LeftSide<A>{static_cast<const A*>(p.head_columns) + (at + i) * s.value_dim, 1, tile_rows},
             RightSide<A>{keys.value_columns, width, width * s.value_dim, whole}, s.value_dim, nullptr, false,
             slopes + i * gradient_keys, gradient_keys);
    for (int64_t r = i; r < std::min<int64_t>(i + tile_rows, count); ++r) {
      const int64_t seen = std::clamp<int64_t>(s.visible(first + r, length) - keys.first, 0, most);
      if (f.mask.data) {
        apply_mask<T>(f.mask, f.mask.at(b, h, first + r, keys.first), seen, weights + r * gradient_keys);
      }
      if (f.dropout.is_on()) draw_factors(f.dropout, row + r, keys.first, seen, factors);
      const auto differentiate = f.dropout.is_on() ? differentiate_row<true, A> : differentiate_row<false, A>;
      differentiate(weights + r * gradient_keys, slopes + r * gradient_keys, seen, cleared,
                    static_cast<const A*>(f.logsum)[row + r], static_cast<const A*>(p.delta)[row + r], factors);
    }
    multiply(LeftSide<A>{slopes + i * gradient_keys, gradient_keys, 1},
             RightSide<A>{keys.key_rows, p.dim, width, p.dim}, most, nullptr, true, d_query + (first + i) * p.dim,
             p.dim);
  }
  const A* const query = static_cast<const A*>(p.query_rows) + row * p.dim;
  const A* const gradient = static_cast<const A*>(p.head_rows) + row * p.value_dim;
  for (int64_t j = 0; j < most; j += tile_rows) {
    multiply(LeftSide<A>{slopes + j, 1, gradient_keys}, RightSide<A>{query, p.dim, width, p.dim}, count, nullptr, true,
             keys.d_key + j * p.dim, p.dim);
    multiply(LeftSide<A>{weights + j, 1, gradient_keys}, RightSide<A>{gradient, p.value_dim, width, p.value_dim}, count,
             nullptr, true, keys.d_value + j * p.value_dim, p.value_dim);
  }
}

// Rows of sums as the dtype of the result.
template <class T, class A>
void store_rows(const A* from, int64_t count, int64_t width, int64_t depth, A factor, T* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t r = 0; to && r < count; ++r, from += width, to += depth) {
    for (int64_t k = 0; k < depth; k += lanes) {
      store_n(d, hn::Mul(hn::LoadU(d, from + k), hn::Set(d, factor)), to + k, size_t(std::min(lanes, depth - k)));
    }
  }
}

// One piece of the keys of head `shared` of batch * kv_heads.
template <class T>
void differentiate_piece(const AttentionBackward& f, const Prepared& p, int64_t shared, int64_t piece) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t b = shared / s.kv_heads, first_head = b * s.heads + shared % s.kv_heads * s.group();
  const int64_t begin = piece * p.piece, end = std::min(begin + p.piece, s.m), length = f.lengths[b];
  const int64_t width = tile_width<A>(), square = gradient_queries * gradient_keys;
  // d_query of the last tile's rows that do not exist would be behind the array
  const int64_t rows = p.blocks * gradient_queries;
  A* const d_query = static_cast<A*>(p.d_query) + (piece * s.batch * s.heads + first_head) * rows * p.dim;
  std::fill_n(d_query, s.group() * rows * p.dim, A(0));
  const Scratch scratch(sizeof(A) *
                        size_t(2 * square + gradient_keys * (s.dim + s.value_dim + 2 * p.dim + p.value_dim)));
  A* const weights = scratch.as<A>();
  A* const slopes = weights + square;
  A* const packed = slopes + square;
  std::fill_n(weights, 2 * square, A(0));
  const T* const key = static_cast<const T*>(f.key) + shared * s.m * s.dim;
  const T* const value = static_cast<const T*>(f.value) + shared * s.m * s.value_dim;
  for (int64_t j = begin; j < end; j += gradient_keys) {
    const int64_t stored = std::min(gradient_keys, end - j);
    KeyBlock<A> k{};
    k.first = j, k.count = std::clamp<int64_t>(length - j, 0, stored);
    k.key_columns = packed;
    k.value_columns = k.key_columns + gradient_keys * s.dim;
    k.key_rows = k.value_columns + gradient_keys * s.value_dim;
    k.d_key = k.key_rows + gradient_keys * p.dim;
    k.d_value = k.d_key + gradient_keys * p.dim;
    for (int64_t at = 0; at < k.count; at += width) {
      const int64_t some = std::min(width, k.count - at);
      pack_columns(key + (j + at) * s.dim, s.dim, some, s.dim, width, A(1), k.key_columns + at * s.dim);
      pack_columns(value + (j + at) * s.value_dim, s.value_dim, some, s.value_dim, width, A(1),
                   k.value_columns + at * s.value_dim);
    }
    pack_rows(key + j * s.dim, k.count, s.dim, p.dim, k.key_rows);
    std::fill_n(k.d_key, gradient_keys * p.dim, A(0));
    std::fill_n(k.d_value, gradient_keys * p.value_dim, A(0));
    for (int64_t g = 0; g < s.group(); ++g) {
      for (int64_t block = s.first_query(j, length) / gradient_queries; block < p.blocks; ++block) {
        add_block<T>(f, p, k, first_head + g, block, d_query + g * rows * p.dim, weights, slopes);
      }
    }
    T* const d_key = static_cast<T*>(f.d_key);
    T* const d_value = static_cast<T*>(f.d_value);
    store_rows(k.d_key, stored, p.dim, s.dim, A(s.scale), d_key ? d_key + (shared * s.m + j) * s.dim : nullptr);
    store_rows(k.d_value, stored, p.value_dim, s.value_dim, A(1),
               d_value ? d_value + (shared * s.m + j) * s.value_dim : nullptr);
  }
}

// The sum of the pieces' d_query for one block of queries.
template <class T>
void join_block(const AttentionBackward& f, const Prepared& p, int64_t head, int64_t block) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), rows = p.blocks * gradient_queries;
  const int64_t first = block * gradient_queries, count = std::min(gradient_queries, s.n - first);
  A* const sum = static_cast<A*>(p.d_query) + (head * rows + first) * p.dim;
  for (int64_t piece = 1; piece < p.pieces; ++piece) {
    const A* const next = sum + piece * s.batch * s.heads * rows * p.dim;
    for (int64_t k = 0; k < count * p.dim; k += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, sum + k), hn::LoadU(d, next + k)), d, sum + k);
    }
  }
  store_rows(sum, count, p.dim, s.dim, A(s.scale), static_cast<T*>(f.d_query) + (head * s.n + first) * s.dim);
}

int64_t Lanes(DType dtype) { return (dtype == DType::float64 ? tile_width<double>() : tile_width<float>()) / 2; }
void PrepareBlock(const AttentionBackward& f, const Prepared& p, int64_t head, int64_t block) {
  dispatch_float("_backward_scaled_dot_product_attention", f.dtype,
                 [&]<class T>() { prepare_block<T>(f, p, head, block); });
}
void DifferentiatePiece(const AttentionBackward& f, const Prepared& p, int64_t shared, int64_t piece) {
  dispatch_float("_backward_scaled_dot_product_attention", f.dtype,
                 [&]<class T>() { differentiate_piece<T>(f, p, shared, piece); });
}
void JoinBlock(const AttentionBackward& f, const Prepared& p, int64_t head, int64_t block) {
  dispatch_float("_backward_scaled_dot_product_attention", f.dtype,
                 [&]<class T>() { join_block<T>(f, p, head, block); });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {
HWY_EXPORT(Lanes);
HWY_EXPORT(PrepareBlock);
HWY_EXPORT(DifferentiatePiece);
HWY_EXPORT(JoinBlock);

void zero(void* data, int64_t size, DType dtype) {
  if (data) std::memset(data, 0, size_t(size) * size_of(dtype));
}

Prepared prepare(const AttentionBackward& f, RunContext& run) {
  const AttentionSizes& s = f.sizes;
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(Lanes)(f.dtype), heads = s.batch * s.heads;
  const bool is_half = size_of(f.dtype) == 2;
  const auto take = [&](int64_t n) { return run.workspace((f.dtype == DType::float64 ? 8 : 4) * size_t(n + lanes)); };
  Prepared p{};
  p.dim = pieces_of(s.dim, lanes) * lanes;
  p.value_dim = pieces_of(s.value_dim, lanes) * lanes;
  p.blocks = pieces_of(s.n, gradient_queries);
  p.pieces =
      std::clamp<int64_t>(pieces_of(most_pieces, s.batch * s.kv_heads), 1, std::max<int64_t>(1, s.m / gradient_piece));
  p.piece = pieces_of(pieces_of(s.m, p.pieces), gradient_keys) * gradient_keys;
  p.pieces = pieces_of(s.m, p.piece);
  const int64_t rows = heads * p.blocks * gradient_queries;
  p.query_columns = take(rows * s.dim);
  p.head_columns = take(rows * s.value_dim);
  p.query_rows = is_half || p.dim != s.dim ? take(heads * s.n * p.dim) : const_cast<void*>(f.query);
  p.head_rows = is_half || p.value_dim != s.value_dim ? take(heads * s.n * p.value_dim) : const_cast<void*>(f.head);
  p.delta = take(heads * s.n);
  p.d_query = take(p.pieces * rows * p.dim);
  return p;
}

}  // namespace

void attention_backward(const AttentionBackward& f, RunContext& run) {
  const AttentionSizes& s = f.sizes;
  const int64_t heads = s.batch * s.heads;
  if (heads * s.n == 0 || s.m == 0) {
    zero(f.d_query, heads * s.n * s.dim, f.dtype);
    zero(f.d_key, s.batch * s.kv_heads * s.m * s.dim, f.dtype);
    return zero(f.d_value, s.batch * s.kv_heads * s.m * s.value_dim, f.dtype);
  }
  const Prepared p = prepare(f, run);
  const auto for_blocks = [&](auto&& body) {
    const int64_t grain = std::max<int64_t>(1, 32768 / (gradient_queries * (s.dim + s.value_dim) + 1));
    run.parallel_for(heads * p.blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i / p.blocks, i % p.blocks);
    });
  };
  for_blocks([&](int64_t head, int64_t block) { HWY_DYNAMIC_DISPATCH(PrepareBlock)(f, p, head, block); });
  run.parallel_for(s.batch * s.kv_heads * p.pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) HWY_DYNAMIC_DISPATCH(DifferentiatePiece)(f, p, i / p.pieces, i % p.pieces);
  });
  if (f.d_query) {
    for_blocks([&](int64_t head, int64_t block) { HWY_DYNAMIC_DISPATCH(JoinBlock)(f, p, head, block); });
  }
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

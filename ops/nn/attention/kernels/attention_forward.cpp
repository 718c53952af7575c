#include "kaon/ops/nn/attention/kernels/attention_forward.h"

#include <algorithm>

#include "kaon/ops/kernels/scratch.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/attention/kernels/attention_forward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/nn/attention/kernels/attention_tile-inl.h"

// This part is compiled once, the rest for each target.
#ifndef KAON_OPS_ATTENTION_FORWARD_CPP
#define KAON_OPS_ATTENTION_FORWARD_CPP
namespace kaon::ops {

constexpr int64_t key_block = 192;   // scores of a row that are in the cache together: whole panels of every target
constexpr int64_t few_queries = 4;   // up to here a query goes through the keys alone
constexpr int64_t key_piece = 2048;  // keys that such a query sees in one piece
constexpr int64_t row_tiles = 4;     // tiles of rows that share a block of keys

inline int64_t pieces_of(int64_t total, int64_t part) { return (total + part - 1) / part; }

// Keys and values of one head in the layout of the products: panels of keys, (dim, tile_width) each; values (m,
// padded).
struct PackedHead {
  int64_t panel, panels, key_size, value_width, value_size;  // in numbers
  bool copies_values;
};

}  // namespace kaon::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

PackedHead packed_head(const AttentionForward& f) {
  const bool wide = f.dtype == DType::float64;
  const int64_t width = wide ? tile_width<double>() : tile_width<float>();
  PackedHead p{};
  p.panel = f.sizes.dim * width;
  p.panels = pieces_of(f.sizes.m, width);
  p.key_size = p.panel * p.panels;
  p.value_width = pieces_of(f.sizes.value_dim, width / 2) * (width / 2);
  p.copies_values = size_of(f.dtype) == 2 || p.value_width != f.sizes.value_dim;
  p.value_size = p.copies_values ? f.sizes.m * p.value_width : 0;
  return p;
}

// Block `block` of the keys and values of head `head` of batch * kv_heads.
template <class T>
void pack_block(const AttentionForward& f, const PackedHead& p, int64_t head, int64_t block, void* packed) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t width = tile_width<A>(), first = block * key_block;
  const int64_t last = std::min(first + key_block, f.lengths[head / s.kv_heads]);
  A* const keys = static_cast<A*>(packed) + head * (p.key_size + p.value_size);
  for (int64_t j = first; j < last; j += width) {
    pack_columns(static_cast<const T*>(f.key) + (head * s.m + j) * s.dim, s.dim, std::min(width, last - j), s.dim,
                 width, A(1), keys + j / width * p.panel);
  }
  if (p.copies_values && first < last) {
    pack_rows(static_cast<const T*>(f.value) + (head * s.m + first) * s.value_dim, last - first, s.value_dim,
              p.value_width, keys + p.key_size + first * p.value_width);
  }
}

// Rows of queries on their way through the keys: the largest score so far, the sum of e^(score - largest), and values
// weighted by these numbers.
template <class A>
struct RowState {
  A *top, *sum, *values;
};

// Rows whose scores in one block of keys become weights in place. alpha: what the row's earlier weights shrink by.
template <class A>
void weigh(A* scores, const int64_t* counts, int rows, RowState<A> state, A* alpha) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  HWY_ALIGN A tops[tile_rows + hn::MaxLanes(d)];
  for (int r = 0; r < rows; ++r) {
    auto top = hn::Set(d, lowest), other = top;
    const A* const row = scores + r * key_block;
    int64_t j = 0;
    for (; j + 2 * lanes <= counts[r]; j += 2 * lanes) {
      top = hn::Max(hn::LoadU(d, row + j), top);
      other = hn::Max(hn::LoadU(d, row + j + lanes), other);
    }
    for (; j < counts[r]; j += lanes) {
      const auto v = hn::LoadU(d, row + j);
      top = hn::Max(hn::IfThenElse(hn::FirstN(d, size_t(std::min(lanes, counts[r] - j))), v, hn::Set(d, lowest)), top);
    }
    tops[r] = hn::GetLane(hn::MaxOfLanes(d, hn::Max(top, other)));
  }
  for (int r = 0; r < rows; r += int(lanes)) {
    const size_t n = size_t(std::min<int64_t>(lanes, rows - r));
    const auto before = load_n(d, state.top + r, n), top = hn::Max(load_n(d, tops + r, n), before);
    // where nothing was seen, 0 instead of -infinity, whose differences are NaN
    const auto finite = hn::IfThenElse(hn::Eq(top, hn::Set(d, lowest)), hn::Zero(d), top);
    store_n(d, exp_below(d, hn::Sub(before, finite)), alpha + r, n);
    store_n(d, top, state.top + r, n);
    store_n(d, finite, tops + r, n);
  }
  for (int r = 0; r < rows; ++r) {
    A* const row = scores + r * key_block;
    const auto top = hn::Set(d, tops[r]);
    auto sum = hn::Zero(d);
    int64_t j = 0;
    for (; j + lanes <= counts[r]; j += lanes) {
      const auto e = exp_below(d, hn::Sub(hn::LoadU(d, row + j), top));
      sum = hn::Add(sum, e);
      hn::StoreU(e, d, row + j);
    }
    if (j < counts[r]) {
      const auto e = exp_below(d, hn::Sub(hn::LoadU(d, row + j), top));
      sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, size_t(counts[r] - j)), e));
      hn::StoreU(e, d, row + j);
    }
    state.sum[r] = state.sum[r] * alpha[r] + hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// The result of a row, and the logarithm of its sum.
template <class T, class A>
void finish_row(const AttentionForward& f, int64_t row, A top, A sum, const A* values) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), n = f.sizes.value_dim;
  const auto factor = hn::Set(d, sum == 0 ? A(0) : A(1) / sum);
  T* const to = static_cast<T*>(f.output) + row * n;
  for_scores(values, n, [&](auto v, int64_t k, int64_t count) HWY_ATTR {
    const auto result = hn::Mul(v, factor);
    if (count == lanes) {
      store(d, result, to + k);
    } else {
      store_n(d, result, to + k, size_t(count));
    }
  });
  if (f.logsum) {
    static_cast<A*>(f.logsum)[row] = sum == 0 ? std::numeric_limits<A>::infinity() : top + std::log(sum);
  }
}

// Drops weights of a row, those of the keys from `from` on, a multiple of 4.
template <class A>
void drop(const AttentionDropout& d, int64_t row, int64_t from, int64_t n, A* weights) {
  HWY_ALIGN A factors[key_block];
  draw_factors(d, row, from, n, factors);
  for (int64_t j = 0; j < n; ++j) weights[j] *= factors[j];
}

// The sum of a[k] b[k].
template <class T, class A>
HWY_INLINE A dot(const A* a, const T* b, int64_t n) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) sum = hn::MulAdd(hn::LoadU(d, a + k), load(d, b + k), sum);
  if (k < n) sum = hn::MulAdd(load_n(d, a + k, size_t(n - k)), load_n(d, b + k, size_t(n - k)), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// values = alpha values + sum over j < n of weights[j] rows[j], rows of `width` numbers.
template <class T, class A>
void add_rows(const A* weights, const T* rows, int64_t n, int64_t width, A alpha, A* values) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t k = 0;
  for (; k + 4 * lanes <= width; k += 4 * lanes) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (int64_t j = 0; j < n; ++j) {
      const T* const row = rows + j * width + k;
      const auto w = hn::Set(d, weights[j]);
      a = hn::MulAdd(w, load(d, row), a), b = hn::MulAdd(w, load(d, row + lanes), b);
      c = hn::MulAdd(w, load(d, row + 2 * lanes), c), e = hn::MulAdd(w, load(d, row + 3 * lanes), e);
    }
    const auto factor = hn::Set(d, alpha);
    A* const to = values + k;
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, to), a), d, to);
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, to + lanes), b), d, to + lanes);
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, to + 2 * lanes), c), d, to + 2 * lanes);
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, to + 3 * lanes), e), d, to + 3 * lanes);
  }
  for (; k < width; k += lanes) {
    const size_t count = size_t(std::min(lanes, width - k));
    auto a = hn::Mul(hn::Set(d, alpha), load_n(d, values + k, count));
    for (int64_t j = 0; j < n; ++j) a = hn::MulAdd(hn::Set(d, weights[j]), load_n(d, rows + j * width + k, count), a);
    store_n(d, a, values + k, count);
  }
}

// Queries [first, last) of head `head` of batch * heads, at most row_tiles tiles of them.
template <class T>
void attend_tiles(const AttentionForward& f, const PackedHead& p, const void* packed, int64_t head, int64_t first,
                  int64_t last) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t b = head / s.heads, h = head % s.heads, shared = b * s.kv_heads + h / s.group();
  const A* const keys = static_cast<const A*>(packed) + shared * (p.key_size + p.value_size);
  const A* const values =
      p.copies_values ? keys + p.key_size : static_cast<const A*>(f.value) + shared * s.m * s.value_dim;
  const int64_t rows = pieces_of(last - first, tile_rows) * tile_rows, query_size = tile_rows * s.dim;
  const Scratch scratch(sizeof(A) * size_t(tile_rows * key_block + rows * (s.dim + p.value_width + 2) + tile_rows));
  A* const scores = scratch.as<A>();
  A* const queries = scores + tile_rows * key_block;
  const RowState<A> state{queries + rows * (s.dim + p.value_width), queries + rows * (s.dim + p.value_width + 1),
                          queries + rows * s.dim};
  A* const alpha = state.sum + rows;
  std::fill_n(state.values, rows * p.value_width, A(0));
  std::fill_n(state.top, rows, -std::numeric_limits<A>::infinity());
  std::fill_n(state.sum, rows, A(0));
  for (int64_t i = first, t = 0; i < last; i += tile_rows, ++t) {
    pack_columns(static_cast<const T*>(f.query) + (head * s.n + i) * s.dim, s.dim,
                 std::min<int64_t>(tile_rows, last - i), s.dim, tile_rows, A(s.scale), queries + t * query_size);
  }
  const int64_t length = f.lengths[b], end = s.visible(last - 1, length);
  const int64_t width = tile_width<A>();
  for (int64_t from = 0; from < end; from += key_block) {
    for (int64_t t = 0; t * tile_rows < last - first; ++t) {
      const int64_t i0 = first + t * tile_rows, count = std::min<int64_t>(tile_rows, last - i0);
      int64_t seen[tile_rows];
      for (int64_t r = 0; r < tile_rows; ++r) {
        seen[r] = std::clamp<int64_t>(s.visible(i0 + std::min(r, count - 1), length) - from, 0, key_block);
      }
      const int64_t most = seen[tile_rows - 1];  // later queries see more
      if (most == 0) continue;
      multiply(LeftSide<A>{queries + t * query_size, 1, tile_rows},
               RightSide<A>{keys + from / width * p.panel, width, p.panel, pieces_of(most, width) * width}, s.dim,
               nullptr, false, scores, key_block);
      for (int64_t r = 0; f.mask.data && r < count; ++r) {
        apply_mask<T>(f.mask, f.mask.at(b, h, i0 + r, from), seen[r], scores + r * key_block);
      }
      weigh(scores, seen, tile_rows, RowState<A>{state.top + t * tile_rows, state.sum + t * tile_rows, nullptr}, alpha);
      for (int64_t r = 0; f.dropout.is_on() && r < count; ++r) {
        drop(f.dropout, head * s.n + i0 + r, from, seen[r], scores + r * key_block);
      }
      A* const to = state.values + t * tile_rows * p.value_width;
      const A* const from_values = values + from * p.value_width;
      multiply(LeftSide<A>{scores, key_block, 1}, RightSide<A>{from_values, p.value_width, width, p.value_width},
               seen[0], alpha, false, to, p.value_width);
      // keys that some of the rows do not see: 0 times their values may be NaN
      for (int64_t r = 1; r < count; ++r) {
        add_rows(scores + r * key_block + seen[0], from_values + seen[0] * p.value_width, seen[r] - seen[0],
                 p.value_width, A(1), to + r * p.value_width);
      }
    }
  }
  for (int64_t r = 0; r < last - first; ++r) {
    finish_row<T>(f, head * s.n + first + r, state.top[r], state.sum[r], state.values + r * p.value_width);
  }
}

// One query and the keys [from, to): its state, which begins with top and sum, then values.
template <class T>
void attend_alone(const AttentionForward& f, int64_t row, int64_t from, int64_t to, accumulate_t<T>* state) {
  using A = accumulate_t<T>;
  const AttentionSizes& s = f.sizes;
  const int64_t head = row / s.n, i = row % s.n, b = head / s.heads, h = head % s.heads;
  const int64_t shared = (b * s.kv_heads + h / s.group()) * s.m, end = std::min(to, s.visible(i, f.lengths[b]));
  const Scratch scratch(sizeof(A) * size_t(s.dim + key_block));
  A* const query = scratch.as<A>();
  A* const scores = query + s.dim;
  pack_columns(static_cast<const T*>(f.query) + row * s.dim, s.dim, 1, s.dim, 1, A(s.scale), query);
  state[0] = -std::numeric_limits<A>::infinity(), state[1] = 0;
  std::fill_n(state + 2, s.value_dim, A(0));
  for (; from < end; from += key_block) {
    const int64_t count = std::min(key_block, end - from);
    const T* const keys = static_cast<const T*>(f.key) + (shared + from) * s.dim;
    for (int64_t j = 0; j < count; ++j) scores[j] = dot(query, keys + j * s.dim, s.dim);
    if (f.mask.data) apply_mask<T>(f.mask, f.mask.at(b, h, i, from), count, scores);
    A alpha;
    weigh(scores, &count, 1, RowState<A>{state, state + 1, nullptr}, &alpha);
    if (f.dropout.is_on()) drop(f.dropout, row, from, count, scores);
    add_rows(scores, static_cast<const T*>(f.value) + (shared + from) * s.value_dim, count, s.value_dim, alpha,
             state + 2);
  }
}

// Puts the states of a row's pieces together, in their order.
template <class T>
void join_pieces(const AttentionForward& f, int64_t row, int64_t pieces, accumulate_t<T>* states) {
  using A = accumulate_t<T>;
  const int64_t size = 2 + f.sizes.value_dim;
  for (int64_t p = 1; p < pieces; ++p) {
    const A* const next = states + p * size;
    const A top = std::max(next[0], states[0]), finite = top == -std::numeric_limits<A>::infinity() ? A(0) : top;
    const A mine = std::exp(states[0] - finite), its = std::exp(next[0] - finite);
    for (int64_t k = 1; k < size; ++k) states[k] = states[k] * mine + next[k] * its;
    states[0] = top;
  }
  finish_row<T>(f, row, states[0], states[1], states + 2);
}

PackedHead Packed(const AttentionForward& f) { return packed_head(f); }
int64_t QueryBlock() { return row_tiles * tile_rows; }

void PackBlock(const AttentionForward& f, const PackedHead& p, int64_t head, int64_t block, void* packed) {
  dispatch_float("scaled_dot_product_attention", f.dtype, [&]<class T>() { pack_block<T>(f, p, head, block, packed); });
}
void AttendTiles(const AttentionForward& f, const PackedHead& p, const void* packed, int64_t head, int64_t first,
                 int64_t last) {
  dispatch_float("scaled_dot_product_attention", f.dtype,
                 [&]<class T>() { attend_tiles<T>(f, p, packed, head, first, last); });
}
void AttendAlone(const AttentionForward& f, int64_t row, int64_t piece, int64_t pieces, void* states) {
  dispatch_float("scaled_dot_product_attention", f.dtype, [&]<class T>() {
    attend_alone<T>(f, row, piece * key_piece, (piece + 1) * key_piece,
                    static_cast<accumulate_t<T>*>(states) + (row * pieces + piece) * (2 + f.sizes.value_dim));
  });
}
void JoinPieces(const AttentionForward& f, int64_t row, int64_t pieces, void* states) {
  dispatch_float("scaled_dot_product_attention", f.dtype, [&]<class T>() {
    join_pieces<T>(f, row, pieces, static_cast<accumulate_t<T>*>(states) + row * pieces * (2 + f.sizes.value_dim));
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {
HWY_EXPORT(Packed);
HWY_EXPORT(QueryBlock);
HWY_EXPORT(PackBlock);
HWY_EXPORT(AttendTiles);
HWY_EXPORT(AttendAlone);
HWY_EXPORT(JoinPieces);

// A few queries read the keys where they are: packing them would cost more than the products.
void attend_each(const AttentionForward& f, RunContext& run) {
  const AttentionSizes& s = f.sizes;
  const int64_t rows = s.batch * s.heads * s.n, pieces = std::max<int64_t>(1, pieces_of(s.m, key_piece));
  const size_t width = f.dtype == DType::float64 ? 8 : 4;
  void* const states = run.workspace(width * size_t(rows * pieces * (2 + s.value_dim)));
  const int64_t work = std::min(s.m, key_piece) * (s.dim + s.value_dim) + 1;
  run.parallel_for(rows * pieces, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) HWY_DYNAMIC_DISPATCH(AttendAlone)(f, i / pieces, i % pieces, pieces, states);
  });
  run.parallel_for(rows, std::max<int64_t>(1, 8192 / (pieces * (2 + s.value_dim))), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) HWY_DYNAMIC_DISPATCH(JoinPieces)(f, row, pieces, states);
  });
}

}  // namespace

const int64_t* load_valid_lengths(KernelContext& c, const TensorView* given, int64_t batch, int64_t m) {
  auto* const lengths = static_cast<int64_t*>(c.run.workspace(size_t(batch + 1) * sizeof(int64_t)));
  std::fill_n(lengths, batch, m);
  if (!given) return lengths;
  dispatch_number("scaled_dot_product_attention", given->dtype, [&]<class L>() {
    for (int64_t i = 0; i < batch; ++i) lengths[i] = cut_valid_length(given->as<L>()[i], m);
  });
  return lengths;
}

void attention_forward(const AttentionForward& f, RunContext& run) {
  const AttentionSizes& s = f.sizes;
  if (s.batch * s.heads * s.n == 0) return;
  if (s.n <= few_queries) return attend_each(f, run);
  const PackedHead packed = HWY_DYNAMIC_DISPATCH(Packed)(f);
  const int64_t shared = s.batch * s.kv_heads, blocks = pieces_of(s.m, key_block);
  const size_t width = f.dtype == DType::float64 ? 8 : 4;
  void* const memory = run.workspace(width * size_t(shared * (packed.key_size + packed.value_size)) + 1);
  const int64_t pack_grain = std::max<int64_t>(1, 32768 / (std::min(s.m, key_block) * (s.dim + s.value_dim) + 1));
  run.parallel_for(shared * blocks, pack_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(PackBlock)(f, packed, i / blocks, i % blocks, memory);
    }
  });
  const int64_t rows = HWY_DYNAMIC_DISPATCH(QueryBlock)(), parts = pieces_of(s.n, rows);
  run.parallel_for(s.batch * s.heads * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * rows;
      HWY_DYNAMIC_DISPATCH(AttendTiles)(f, packed, memory, i / parts, first, std::min(first + rows, s.n));
    }
  });
}

}  // namespace kaon::ops
#endif  // HWY_ONCE

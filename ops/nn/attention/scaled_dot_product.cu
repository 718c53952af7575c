// Attention on CUDA: tiles of 32 queries by 32 keys in shared memory, 2 by 2 scores to a thread.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/nn/attention/kernels/attention_call.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int tile = 32, side = 16, threads = side * side, pad = 1;
constexpr unsigned all_lanes = 0xffffffffu;

// Columns of a result that a block makes: shared memory holds 48 KB.
template <class A>
constexpr int chunk = sizeof(A) == 8 ? 32 : 64;
template <class A>
constexpr int own = chunk<A> / side;  // columns of a thread

int64_t parts_of(int64_t total, int64_t part) { return (total + part - 1) / part; }

template <class A>
using Square = A[tile][tile + pad];
template <class A>
using Strip = A[tile][chunk<A> + pad];

template <class T>
struct Call {
  AttentionSizes s;
  const T *query, *key, *value;
  AttentionMask mask;
  const int64_t* lengths;
  AttentionDropout dropout;
  const uint32_t* drawn;  // of the forward; null: this is it

  // With what the forward has drawn.
  __device__ AttentionDropout own_dropout() const {
    AttentionDropout d = dropout;
    if (drawn) d.load(drawn);
    return d;
  }
  __device__ int64_t shared_head(int64_t head) const {
    return head / s.heads * s.kv_heads + head % s.heads / s.group();
  }
};

struct CutLength {
  const void* given;  // null: each has m keys
  DType dtype;
  int64_t m;
  int64_t* lengths;
  struct Cut {
    int64_t m;
    template <class L>
    __device__ int64_t operator()(L value) const {
      return cut_valid_length(value, m);
    }
  };
  __device__ void operator()(int64_t i) const { lengths[i] = given ? cuda::with_element(given, dtype, i, Cut{m}) : m; }
};

const int64_t* device_lengths(KernelContext& c, const TensorView* given, int64_t batch, int64_t m) {
  auto* const lengths = static_cast<int64_t*>(c.run.workspace(size_t(batch + 1) * sizeof(int64_t)));
  cuda::for_each(c, batch, CutLength{given ? given->data : nullptr, given ? given->dtype : DType::float32, m, lengths});
  return lengths;
}

// Rows [first, last) of (.., width) and columns [from, width) into a tile, and zeros where there are none.
template <class T, class A, int Columns>
__device__ void load_tile(const T* rows, int64_t first, int64_t last, int64_t width, int64_t from,
                          A (&to)[tile][Columns]) {
  constexpr int columns = Columns - pad;
  for (int i = int(threadIdx.x); i < tile * columns; i += threads) {
    const int r = i / columns, k = i % columns;
    const bool exists = first + r < last && from + k < width;
    to[r][k] = exists ? A(rows[(first + r) * width + from + k]) : A(0);
  }
}

// products[i][j] = the product of row ty + 16 i of `left` with row tx + 16 j of `right`, whose rows begin at `i0` and
// `j0` and end at `i1` and `j1`.
template <class T, class A>
__device__ void multiply_rows(const T* left, int64_t i0, int64_t i1, const T* right, int64_t j0, int64_t j1,
                              int64_t width, Square<A>& a, Square<A>& b, A (&products)[2][2]) {
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  for (auto& row : products) row[0] = row[1] = A(0);
  __syncthreads();  // what was computed with the tiles before is done
  for (int64_t from = 0; from < width; from += tile) {
    load_tile(left, i0, i1, width, from, a);
    load_tile(right, j0, j1, width, from, b);
    __syncthreads();
    for (int k = 0; k < tile; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) products[i][j] += a[ty + side * i][k] * b[tx + side * j][k];
      }
    }
    __syncthreads();
  }
}

// The score of query i and key j from their product; -infinity where i does not see j.
template <class T, class A>
__device__ A score(const Call<T>& c, int64_t b, int64_t h, int64_t i, int64_t j, A product) {
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  if (i >= c.s.n || j >= c.s.visible(i, c.lengths[b])) return nothing;
  const A value = product * A(c.s.scale);
  if (!c.mask.data) return value;
  const int64_t at = c.mask.at(b, h, i, j);
  if (c.mask.is_boolean) return static_cast<const bool*>(c.mask.data)[at] ? value : nothing;
  return value + A(static_cast<const T*>(c.mask.data)[at]);
}

// sums[i][j] += the sum over k of left(ty + 16 i, k) strip[k][tx + 16 j], where counts(i, k).
struct Always {
  __device__ bool operator()(int, int) const { return true; }
};
template <class A, class Left, class Counts>
__device__ void add_products(const Left& left, const Strip<A>& strip, A (&sums)[2][own<A>], const Counts& counts) {
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  for (int k = 0; k < tile; ++k) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!counts(i, k)) continue;
      const A factor = left(ty + side * i, k);
#pragma unroll
      for (int j = 0; j < own<A>; ++j) sums[i][j] += factor * strip[k][tx + side * j];
    }
  }
}

template <class T, class A>
__device__ void store_strip(const A (&sums)[2][own<A>], A factor, T* rows, int64_t first, int64_t last, int64_t width,
                            int64_t from) {
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < own<A>; ++j) {
      const int64_t row = first + ty + side * i, column = from + tx + side * j;
      if (rows && row < last && column < width) rows[row * width + column] = T(sums[i][j] * factor);
    }
  }
}

// A block makes one chunk of the values of one tile of queries.
template <class T, class A>
__global__ void forward_kernel(Call<T> c, int64_t tiles, int64_t chunks, T* output, A* logsum) {
  __shared__ Square<A> a, b, weights;
  __shared__ Strip<A> values;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  const AttentionSizes& s = c.s;
  const int64_t part = blockIdx.x % chunks, rest = blockIdx.x / chunks, head = rest / tiles;
  const int64_t i0 = rest % tiles * tile, i1 = i0 + tile < s.n ? i0 + tile : s.n, sample = head / s.heads;
  const int64_t end = s.visible(i1 - 1, c.lengths[sample]), shared = c.shared_head(head);
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  const AttentionDropout dropout = c.own_dropout();
  A top[2] = {lowest, lowest}, sum[2] = {0, 0}, sums[2][own<A>] = {};
  const int64_t seen[2] = {s.visible(i0 + ty, c.lengths[sample]), s.visible(i0 + ty + side, c.lengths[sample])};
  for (int64_t j0 = 0; j0 < end; j0 += tile) {
    A scores[2][2];
    multiply_rows(c.query + head * s.n * s.dim, i0, i1, c.key + shared * s.m * s.dim, j0, end, s.dim, a, b, scores);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        scores[i][j] = score(c, sample, head % s.heads, i0 + ty + side * i, j0 + tx + side * j, scores[i][j]);
      }
      A most = scores[i][0] > scores[i][1] ? scores[i][0] : scores[i][1];
      if (!(most > top[i])) most = top[i];  // a NaN reaches the sum
      for (int lane = side / 2; lane > 0; lane /= 2) {
        const A other = __shfl_xor_sync(all_lanes, most, lane);
        if (other > most) most = other;
      }
      const A finite = most == lowest ? A(0) : most, alpha = ::exp(top[i] - finite);
      A added = 0;
      for (int j = 0; j < 2; ++j) {
        const A weight = ::exp(scores[i][j] - finite);
        weights[ty + side * i][tx + side * j] =
            weight * A(dropout.factor_of(head * s.n + i0 + ty + side * i, j0 + tx + side * j));
        added += weight;
      }
      for (int lane = side / 2; lane > 0; lane /= 2) added += __shfl_xor_sync(all_lanes, added, lane);
      sum[i] = sum[i] * alpha + added;
      top[i] = most;
      for (A& v : sums[i]) v *= alpha;
    }
    __syncthreads();
    load_tile(c.value + shared * s.m * s.value_dim, j0, end, s.value_dim, part * chunk<A>, values);
    __syncthreads();
    // 0 times the value of a key that a query does not see may be NaN
    add_products([&](int i, int k) { return weights[i][k]; }, values, sums,
                 [&](int i, int k) { return j0 + k < seen[i]; });
  }
  for (int i = 0; i < 2; ++i) {
    const A factor = sum[i] == 0 ? A(0) : A(1) / sum[i];
    for (A& v : sums[i]) v *= factor;
    const int64_t row = i0 + ty + side * i;
    if (!logsum || part != 0 || tx != 0 || row >= i1) continue;
    logsum[head * s.n + row] = sum[i] == 0 ? -lowest : top[i] + ::log(sum[i]);
  }
  store_strip(sums, A(1), output + head * s.n * s.value_dim, i0, i1, s.value_dim, part * chunk<A>);
}

template <class T>
struct Heads {
  const T* head;
  const accumulate_t<T>*logsum, *delta;
};

// The weight of query i and key j, and its slope without the factor scale.
template <class T, class A>
__device__ A weight_of(const Call<T>& c, const Heads<T>& h, int64_t head, int64_t i, int64_t j, A product) {
  const A value = score(c, head / c.s.heads, head % c.s.heads, i, j, product);
  return value == -std::numeric_limits<A>::infinity() ? A(0) : ::exp(value - h.logsum[head * c.s.n + i]);
}
// factor: what dropout has multiplied the weight by.
template <class T, class A>
__device__ A slope_of(const Heads<T>& h, int64_t row, A weight, A factor, A product) {
  return weight == A(0) ? A(0) : weight * (factor * product - h.delta[row]);
}

// A block makes one chunk of the gradient of one tile of queries.
template <class T, class A>
__global__ void query_gradient_kernel(Call<T> c, Heads<T> h, int64_t tiles, int64_t chunks, T* d_query) {
  __shared__ Square<A> a, b, slopes;
  __shared__ Strip<A> keys;
  const AttentionSizes& s = c.s;
  const int64_t part = blockIdx.x % chunks, rest = blockIdx.x / chunks, head = rest / tiles;
  const int64_t i0 = rest % tiles * tile, i1 = i0 + tile < s.n ? i0 + tile : s.n;
  const int64_t end = s.visible(i1 - 1, c.lengths[head / s.heads]), shared = c.shared_head(head);
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  const AttentionDropout dropout = c.own_dropout();
  A sums[2][own<A>] = {};
  for (int64_t j0 = 0; j0 < end; j0 += tile) {
    A scores[2][2], products[2][2];
    multiply_rows(c.query + head * s.n * s.dim, i0, i1, c.key + shared * s.m * s.dim, j0, end, s.dim, a, b, scores);
    multiply_rows(h.head + head * s.n * s.value_dim, i0, i1, c.value + shared * s.m * s.value_dim, j0, end, s.value_dim,
                  a, b, products);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        const int64_t row = i0 + ty + side * i;
        const A weight = weight_of(c, h, head, row, j0 + tx + side * j, scores[i][j]);
        const A factor = A(dropout.factor_of(head * s.n + row, j0 + tx + side * j));
        slopes[ty + side * i][tx + side * j] = slope_of(h, head * s.n + row, weight, factor, products[i][j]);
      }
    }
    __syncthreads();
    load_tile(c.key + shared * s.m * s.dim, j0, end, s.dim, part * chunk<A>, keys);
    __syncthreads();
    add_products([&](int i, int k) { return slopes[i][k]; }, keys, sums, Always());
  }
  store_strip(sums, A(s.scale), d_query + head * s.n * s.dim, i0, i1, s.dim, part * chunk<A>);
}

// A block makes one chunk of the gradients of one tile of keys and values.
template <class T, class A>
__global__ void key_gradient_kernel(Call<T> c, Heads<T> h, int64_t tiles, int64_t chunks, T* d_key, T* d_value) {
  __shared__ Square<A> a, b, weights, slopes;
  __shared__ Strip<A> strip;
  const AttentionSizes& s = c.s;
  const int64_t part = blockIdx.x % chunks, rest = blockIdx.x / chunks, shared = rest / tiles;
  const int64_t j0 = rest % tiles * tile, j1 = j0 + tile < s.m ? j0 + tile : s.m;
  const int64_t sample = shared / s.kv_heads, length = c.lengths[sample];
  const int64_t end = length < j1 ? length : j1;  // keys behind it are not read
  const int ty = int(threadIdx.x) / side, tx = int(threadIdx.x) % side;
  const AttentionDropout dropout = c.own_dropout();
  A key_sums[2][own<A>] = {}, value_sums[2][own<A>] = {};
  for (int64_t g = 0; g < s.group() && j0 < end; ++g) {
    const int64_t head = sample * s.heads + shared % s.kv_heads * s.group() + g;
    for (int64_t i0 = s.first_query(j0, length) / tile * tile; i0 < s.n; i0 += tile) {
      const int64_t i1 = i0 + tile < s.n ? i0 + tile : s.n;
      const T* const query = c.query + head * s.n * s.dim;
      const T* const gradient = h.head + head * s.n * s.value_dim;
      A scores[2][2], products[2][2];
      multiply_rows(query, i0, i1, c.key + shared * s.m * s.dim, j0, end, s.dim, a, b, scores);
      multiply_rows(gradient, i0, i1, c.value + shared * s.m * s.value_dim, j0, end, s.value_dim, a, b, products);
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          const int64_t row = i0 + ty + side * i;
          const A weight = weight_of(c, h, head, row, j0 + tx + side * j, scores[i][j]);
          const A factor = A(dropout.factor_of(head * s.n + row, j0 + tx + side * j));
          weights[ty + side * i][tx + side * j] = weight * factor;
          slopes[ty + side * i][tx + side * j] = slope_of(h, head * s.n + row, weight, factor, products[i][j]);
        }
      }
      __syncthreads();
      load_tile(query, i0, i1, s.dim, part * chunk<A>, strip);
      __syncthreads();
      add_products([&](int j, int k) { return slopes[k][j]; }, strip, key_sums, Always());
      __syncthreads();
      load_tile(gradient, i0, i1, s.value_dim, part * chunk<A>, strip);
      __syncthreads();
      add_products([&](int j, int k) { return weights[k][j]; }, strip, value_sums, Always());
    }
  }
  if (d_key) store_strip(key_sums, A(s.scale), d_key + shared * s.m * s.dim, j0, j1, s.dim, part * chunk<A>);
  if (d_value)
    store_strip(value_sums, A(1), d_value + shared * s.m * s.value_dim, j0, j1, s.value_dim, part * chunk<A>);
}

// The sum of head * output for each query.
template <class T>
struct Delta {
  const T *head, *output;
  int64_t width;
  accumulate_t<T>* delta;
  __device__ void operator()(int64_t row) const {
    accumulate_t<T> sum = 0;
    for (int64_t k = row * width; k < (row + 1) * width; ++k)
      sum += accumulate_t<T>(head[k]) * accumulate_t<T>(output[k]);
    delta[row] = sum;
  }
};

struct SaveDropout {
  AttentionDropout dropout;
  uint32_t* drawn;
  __device__ void operator()(int64_t) const { dropout.save(drawn); }
};

template <class T, class Op>
Call<T> call_of(const Op& op, KernelContext& c, int first) {
  const TensorView &query = c.in(first), &key = c.in(first + 1), &value = c.in(first + 2);
  const AttentionSizes sizes(op, query.shape, key.shape, value.shape);
  return {sizes,
          query.as<T>(),
          key.as<T>(),
          value.as<T>(),
          op.use_mask ? AttentionMask(c.in(first + 3)) : AttentionMask(),
          device_lengths(c, op.use_valid_length ? &c.in(first + 3 + int(op.use_mask)) : nullptr, sizes.batch, sizes.m),
          attention_dropout(op.dropout, sizes.m, c.random),
          nullptr};
}

}  // namespace

void run_cuda(const op::ScaledDotProductAttention& op, KernelContext& c) {
  dispatch_float("scaled_dot_product_attention", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    Call<T> call = call_of<T>(op, c, 0);
    if (!c.training) call.dropout = {};
    if (op.dropout > 0 && c.out(2).data) cuda::for_each(c, 1, SaveDropout{call.dropout, c.out(2).as<uint32_t>()});
    const AttentionSizes& s = call.s;
    const int64_t tiles = parts_of(s.n, tile), chunks = std::max<int64_t>(1, parts_of(s.value_dim, chunk<A>));
    const int64_t blocks = s.batch * s.heads * tiles * chunks;
    if (blocks == 0) return;
    cuda::launch(c, forward_kernel<T, A>, unsigned(blocks), unsigned(threads), call, tiles, chunks, c.out(0).as<T>(),
                 c.out(1).as<A>());
  });
}

void run_cuda(const op::BackwardScaledDotProductAttention& op, KernelContext& c) {
  dispatch_float("_backward_scaled_dot_product_attention", c.in(3).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    Call<T> call = call_of<T>(op, c, 3);
    if (op.dropout > 0) call.drawn = c.inputs.back().template as<const uint32_t>();
    const AttentionSizes& s = call.s;
    const int64_t rows = s.batch * s.heads * s.n;
    auto* const delta = static_cast<A*>(c.run.workspace(size_t(rows + 1) * sizeof(A)));
    cuda::for_each(c, rows, Delta<T>{c.in(0).as<T>(), c.in(1).as<T>(), s.value_dim, delta});
    const Heads<T> heads{c.in(0).as<T>(), c.in(2).as<A>(), delta};
    const int64_t tiles = parts_of(s.n, tile), chunks = parts_of(s.dim, chunk<A>);
    if (const int64_t blocks = s.batch * s.heads * tiles * chunks; blocks > 0 && c.out(0).data) {
      cuda::launch(c, query_gradient_kernel<T, A>, unsigned(blocks), unsigned(threads), call, heads, tiles, chunks,
                   c.out(0).as<T>());
    }
    const int64_t key_tiles = parts_of(s.m, tile), both = parts_of(std::max(s.dim, s.value_dim), chunk<A>);
    if (const int64_t blocks = s.batch * s.kv_heads * key_tiles * both;
        blocks > 0 && (c.out(1).data || c.out(2).data)) {
      cuda::launch(c, key_gradient_kernel<T, A>, unsigned(blocks), unsigned(threads), call, heads, key_tiles, both,
                   c.out(1).as<T>(), c.out(2).as<T>());
    }
  });
}

}  // namespace kaon

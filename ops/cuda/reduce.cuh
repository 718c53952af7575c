// Reductions: every result of an array's kept axes is made of the elements of its reduced axes.
#pragma once

#include <span>

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/reduce/reduce_driver.h"

namespace kaon::cuda {

constexpr int log2_above(int64_t n) {  // the smallest power of two that is not below n
  int log = 0;
  while (int64_t(1) << log < n) ++log;
  return log;
}

// How a block's threads share work: each result is made by 2^log_lanes of them. Consecutive threads take consecutive
// elements of one result, or, side by side, one element each of consecutive results.
struct Team {
  static constexpr int log_block = 8;
  static_assert(1 << log_block == block);

  int log_lanes = 0;
  bool side_by_side = false;

  HOST_DEVICE int lanes() const { return 1 << log_lanes; }
  HOST_DEVICE int results() const { return 1 << (log_block - log_lanes); }  // of one block
  __device__ int lane() const { return side_by_side ? threadIdx.x >> (log_block - log_lanes) : threadIdx.x & (lanes() - 1); }
  __device__ int result() const { return side_by_side ? threadIdx.x & (results() - 1) : threadIdx.x >> log_lanes; }

  // Host code: results of n elements that follow each other in memory.
  static Team along(int64_t n) {
    const int few = std::min(log2_above(n), 5);  // a warp, or less
    return {std::clamp(log2_above((n + 7) / 8), few, log_block), false};
  }
  // Host code: `results` of n elements, in memory beside each other.
  static Team across(int64_t n, int64_t results) {
    const int few = std::min(log2_above((n + 3) / 4), 3);
    const int free = std::max(0, log_block - log2_above(std::min(results, block)));  // no results for these
    return {std::clamp(std::min(free, log2_above((n + 3) / 4)), few, log_block), true};
  }
};

// The value of the thread whose number differs in these bits, fewer than 32. All threads of the warp take part.
template <class T>
__device__ T shuffle_xor(const T& value, int bits) {
  static_assert(sizeof(T) % 4 == 0);
  T other;
  uint32_t words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (uint32_t& word : words) word = __shfl_xor_sync(0xffffffffu, word, bits);
  memcpy(&other, words, sizeof(T));
  return other;
}

// What the lanes of this thread's result have, merged in a fixed order; every lane gets it. All threads of the block take
// part.
template <class Acc, class Merge>
__device__ Acc all_reduce(const Team& team, Acc acc, const Merge& merge) {
  const int distance = team.side_by_side ? team.results() : 1, span = distance << team.log_lanes;
  for (int bits = distance; bits < span && bits < warp; bits *= 2) {
    const Acc other = shuffle_xor(acc, bits);
    acc = threadIdx.x & bits ? merge(other, acc) : merge(acc, other);
  }
  if (span <= warp || team.log_lanes == 0) return acc;
  __shared__ Acc shared[block];
  __syncthreads();  // those that still read what an earlier call has left
  shared[threadIdx.x] = acc;
  __syncthreads();
  const int step = distance < warp ? int(warp) : distance;
  const int first = threadIdx.x / span * span + threadIdx.x % step;
  acc = shared[first];
  for (int i = step; i < span; i += step) acc = merge(acc, shared[first + i]);
  return acc;
}

// Where the elements of some of an array's dimensions lie.
struct Axes {
  static constexpr int most = Shape::max_ndim / 2;  // kept and reduced ones alternate

  int ndim = 0;  // from the last dimension to the first
  int64_t count = 1;
  int64_t size[most] = {}, stride[most] = {};
  Divider divide[most];

  void add(int64_t n, int64_t step) {
    size[ndim] = n, stride[ndim] = step, count *= n;
    if (n > 0 && n < int64_t(1) << 31) divide[ndim] = Divider(n);
    ++ndim;
  }
  __device__ int64_t offset(int64_t i) const {
    if (ndim <= 1) return i * stride[0];
    const bool few = count < int64_t(1) << 31;
    int64_t sum = 0;
#pragma unroll
    for (int d = 0; d < most; ++d) {
      if (d >= ndim) break;
      const int64_t next = d + 1 == ndim ? 0 : few ? int64_t(divide[d](uint32_t(i))) : i / size[d];
      sum += (i - next * size[d]) * stride[d];
      i = next;
    }
    return sum;
  }
};

struct ReducePlan {
  Axes kept, reduced;
  Team team;
  int64_t splits = 1, per_split = 0;  // parts that the elements of one result are reduced in

  int64_t groups() const { return (kept.count + team.results() - 1) / team.results(); }

  // Host code: of a row-major array. Nothing may be asked of it where there are no results.
  explicit ReducePlan(std::span<const ReduceDim> dims) {
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      const bool reduces = dims[i].reduced;
      int64_t size = dims[i].size;
      while (i > 0 && (dims[i - 1].reduced == reduces || dims[i - 1].size == 1)) size *= dims[--i].size;
      if (size == 1) continue;
      if (kept.ndim + reduced.ndim == 0) team.side_by_side = !reduces;
      (reduces ? reduced : kept).add(size, stride);
      stride *= size;
    }
    team = team.side_by_side ? Team::across(reduced.count, kept.count) : Team::along(reduced.count);
    constexpr int64_t enough = 1024;  // blocks
    const int64_t worthwhile = reduced.count / (16 * team.lanes());
    if (kept.count > 0) splits = std::max<int64_t>(1, std::min(enough / groups(), worthwhile));
    per_split = (reduced.count + splits - 1) / splits;
  }
};

// R says what is computed:
//   Acc                          what is accumulated; trivially constructible, of whole 32-bit words
//   Acc identity()
//   Acc add(acc, at, k, j)       acc and element `at` of the array, which is the j-th of result k
//   Acc merge(a, b)              two parts of one result
//   void store(k, acc)           result k
//   Fold                         R itself or its base class with all of these but add
template <class R>
__global__ void __launch_bounds__(block) reduce_kernel(R r, ReducePlan p, int64_t groups, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  const int lane = p.team.lane();
  for (int64_t item = blockIdx.x; item < groups * p.splits; item += gridDim.x) {
    const int64_t part = p.splits == 1 ? 0 : item / groups, group = item - part * groups;
    const int64_t k = group * p.team.results() + p.team.result();
    Acc acc = r.identity();
    if (k < p.kept.count) {
      const int64_t first = p.kept.offset(k), begin = part * p.per_split;
      const int64_t end = begin + p.per_split < p.reduced.count ? begin + p.per_split : p.reduced.count;
#pragma unroll 4
      for (int64_t j = begin + lane; j < end; j += p.team.lanes()) acc = r.add(acc, first + p.reduced.offset(j), k, j);
    }
    acc = all_reduce(p.team, acc, [&](const Acc& a, const Acc& b) { return r.merge(a, b); });
    if (lane != 0 || k >= p.kept.count) continue;
    if (parts) {
      parts[k * p.splits + part] = acc;
    } else {
      r.store(k, acc);
    }
  }
}

// The parts of results as what is reduced.
template <class F>
struct Parts : F {
  const typename F::Acc* parts;
  __device__ typename F::Acc add(const typename F::Acc& acc, int64_t at, int64_t, int64_t) const {
    return this->merge(acc, parts[at]);
  }
};

// Stores the results of an array of these dimensions: the identity where there are no elements. Results are numbered in
// row-major order. The same bits in every run.
template <class R>
void reduce(KernelContext& c, const R& r, std::span<const ReduceDim> dims) {
  using Acc = typename R::Acc;
  using Fold = typename R::Fold;
  const ReducePlan p(dims);
  if (p.kept.count == 0) return;
  const auto blocks = [](const ReducePlan& plan) { return blocks_for(plan.groups() * plan.splits, 1); };
  if (p.splits == 1) return launch(c, reduce_kernel<R>, blocks(p), unsigned(block), r, p, p.groups(), nullptr);
  Acc* const parts = static_cast<Acc*>(c.run.workspace(size_t(p.kept.count * p.splits) * sizeof(Acc)));
  launch(c, reduce_kernel<R>, blocks(p), unsigned(block), r, p, p.groups(), parts);
  const ReduceDim rest[] = {{p.kept.count, false}, {p.splits, true}};
  ReducePlan last{rest};
  last.splits = 1, last.per_split = p.splits;
  launch(c, reduce_kernel<Parts<Fold>>, blocks(last), unsigned(block), Parts<Fold>{r, parts}, last, last.groups(),
         nullptr);
}

}  // namespace kaon::cuda

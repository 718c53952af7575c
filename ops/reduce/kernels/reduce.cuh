// Reductions: every result of an array's kept axes is made of the elements of its reduced axes.
#pragma once

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/reduce/kernels/reduce_plan.h"

namespace kaon::cuda {

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

// Merges the accumulators of the lanes that share this thread's result, in a fixed order; every lane gets the merged
// one. All threads of the block take part.
template <class Acc, class Merge>
__device__ Acc all_reduce(const Team& team, Acc acc, const Merge& merge) {
  const int distance = team.side_by_side ? team.results() : 1, span = distance << team.log_lanes;
  for (int bits = distance; bits < span && bits < warp; bits *= 2) {
    const Acc other = shuffle_xor(acc, bits);
    acc = threadIdx.x & bits ? merge(other, acc) : merge(acc, other);
  }
  if (span <= warp || team.log_lanes == 0) return acc;
  __shared__ Acc shared[block];
  __syncthreads();  // for threads that still read the results of an earlier call
  shared[threadIdx.x] = acc;
  __syncthreads();
  const int step = distance < warp ? int(warp) : distance;
  const int first = threadIdx.x / span * span + threadIdx.x % step;
  acc = shared[first];
  for (int i = step; i < span; i += step) acc = merge(acc, shared[first + i]);
  return acc;
}

// R defines the reduction:
//   Acc                          the accumulator; trivially constructible, of whole 32-bit words
//   Acc identity()
//   Acc add(acc, at, k, j)       acc and element `at` of the array, which is the j-th of result k
//   Acc merge(a, b)              two parts of one result
//   void store(k, acc)           result k
// and if elements can be read several at a time:
//   pack                         how many of them are 16 bytes
//   bool packs()                 on the host: whether the arrays' addresses allow that
//   Acc add_pack(acc, at, k)     acc and the `pack` elements from `at` on, aligned, of result k
//   void add_across(accs, at, k) the same for one element each of as many results, from k on
//   Fold                         R itself or its base class with all of these but add
template <class R>
constexpr bool has_packs = requires {
  R::pack;
};

template <class R>
__global__ void __launch_bounds__(block) reduce_kernel(R r, ReducePlan p, int64_t groups, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  const int lane = p.team.lane(threadIdx.x);
  for (int64_t item = blockIdx.x; item < groups * p.splits; item += gridDim.x) {
    const int64_t part = p.splits == 1 ? 0 : item / groups, group = item - part * groups;
    const int64_t k = group * p.team.results() + p.team.result(threadIdx.x);
    Acc acc = r.identity();
    if (k < p.kept.count) {
      const int64_t first = p.kept.offset(k), begin = part * p.per_split;
      const int64_t end = begin + p.per_split < p.reduced.count ? begin + p.per_split : p.reduced.count;
      if (p.width > 1) {
        if constexpr (has_packs<R>) {
#pragma unroll 2
          for (int64_t j = begin + lane * R::pack; j < end; j += p.team.lanes() * R::pack) {
            acc = r.add_pack(acc, first + p.reduced.offset(j), k);
          }
        }
      } else {
#pragma unroll 4
        for (int64_t j = begin + lane; j < end; j += p.team.lanes()) {
          acc = r.add(acc, first + p.reduced.offset(j), k, j);
        }
      }
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

// For consecutive elements of consecutive results: each thread computes parts of as many results as it reads elements.
template <class R>
__global__ void __launch_bounds__(block)
    reduce_across_kernel(R r, ReducePlan p, int64_t groups, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  constexpr int N = R::pack;
  const int lane = p.team.lane(threadIdx.x);
  for (int64_t item = blockIdx.x; item < groups * p.splits; item += gridDim.x) {
    const int64_t part = p.splits == 1 ? 0 : item / groups, group = item - part * groups;
    const int64_t k = (group * p.team.results() + p.team.result(threadIdx.x)) * N;
    Acc acc[N];
#pragma unroll
    for (Acc& a : acc) a = r.identity();
    if (k < p.kept.count) {
      const int64_t first = p.kept.offset(k), begin = part * p.per_split;
      const int64_t end = begin + p.per_split < p.reduced.count ? begin + p.per_split : p.reduced.count;
#pragma unroll 4
      for (int64_t j = begin + lane; j < end; j += p.team.lanes()) r.add_across(acc, first + p.reduced.offset(j), k);
    }
#pragma unroll
    for (Acc& a : acc) a = all_reduce(p.team, a, [&](const Acc& x, const Acc& y) { return r.merge(x, y); });
    if (lane != 0 || k >= p.kept.count) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) parts[(k + i) * p.splits + part] = acc[i];
  }
}

// Reduces the partial results.
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
  int64_t pack = 1;
  if constexpr (has_packs<R>) pack = r.packs() ? R::pack : 1;
  const ReducePlan p(dims, pack);
  if (p.kept.count == 0) return;
  const auto blocks = [](const ReducePlan& plan) { return blocks_for(plan.groups() * plan.splits, 1); };
  auto kernel = reduce_kernel<R>;
  const bool across = p.results_at_a_time() > 1;
  if constexpr (has_packs<R>) {
    if (across) kernel = reduce_across_kernel<R>;
  }
  if (p.splits == 1 && !across) return launch(c, kernel, blocks(p), unsigned(block), r, p, p.groups(), nullptr);
  Acc* const parts = static_cast<Acc*>(c.run.workspace(size_t(p.kept.count * p.splits) * sizeof(Acc)));
  launch(c, kernel, blocks(p), unsigned(block), r, p, p.groups(), parts);
  const ReduceDim rest[] = {{p.kept.count, false}, {p.splits, true}};
  ReducePlan last{rest};
  last.splits = 1, last.per_split = p.splits;
  launch(c, reduce_kernel<Parts<Fold>>, blocks(last), unsigned(block), Parts<Fold>{r, parts}, last, last.groups(),
         nullptr);
}

}  // namespace kaon::cuda

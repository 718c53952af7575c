// Kernels that draw random numbers: one thread per block of four words, so that they agree with the CPU's.
#pragma once

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/philox.h"

namespace kaon::cuda {

template <class F>
struct DrawBlock {
  RandomKey key;
  F f;
  __device__ void operator()(int64_t block) const { f(block, random_block(key.seed, key.offset, uint64_t(block))); }
};

// f(block, words) for the blocks of n elements that take `per_block` each.
template <class F>
void for_random_blocks(KernelContext& c, int64_t n, int per_block, const F& f) {
  for_each(c, (n + per_block - 1) / per_block, DrawBlock<F>{c.random, f});
}

}  // namespace kaon::cuda

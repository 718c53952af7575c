// Reduction over any set of axes, in parallel and with the same bits for any number of threads.
#pragma once

#include <span>

#include "kaon/ops/reduce/reduce_kernels.h"
#include "kaon/ops/view.h"

namespace kaon {

struct ReduceDim {
  int64_t size;
  bool reduced;
};

// Receives the accumulators (type AccType of run_kernels) of n consecutive results from index `first` on.
using StoreResults = FunctionRef<void(int64_t first, int64_t n, const void* acc)>;

// Reduces the row-major array `data` of at most 16 dimensions. Memory is read once; partial results of fixed-size
// pieces are combined pairwise, so the error grows with the logarithm of the size. No elements: the identity.
void reduce_dims(RunContext& run, Combine combine, const void* data, DType dtype, std::span<const ReduceDim> dims,
                 StoreResults store);

// The dimensions of `shape` with the axes in `mask` (bit i: axis i) marked.
struct ReduceDims {
  ReduceDim items[Shape::max_ndim];
  int count;
  ReduceDims(const Shape& shape, uint32_t mask) : items{}, count(shape.ndim()) {
    for (int i = 0; i < count; ++i) items[i] = {shape[i], ((mask >> i) & 1) != 0};
  }
  std::span<const ReduceDim> span() const { return {items, size_t(count)}; }
};

}  // namespace kaon

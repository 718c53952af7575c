// Reduction over any set of axes, in parallel and with the same bits for any number of threads.
#pragma once

#include <span>

#include "kaon/ops/reduce/kernels/reduce_kernels.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

inline constexpr int64_t reduce_piece = 1 << 17;  // elements that one task reads: about 20 us
inline constexpr int64_t reduce_run = 2048;       // elements of one vectorised run; longer sums go pairwise

// Combines a sequence as a balanced tree would, in O(log n) memory.
template <class Acc>
class Pairwise {
 public:
  explicit Pairwise(Combine combine) : combine_(combine) {}
  void push(Acc value) {
    for (uint64_t c = count_++; c & 1; c >>= 1) value = merge(combine_, stack_[--top_], value);
    stack_[top_++] = value;
  }
  Acc result() {
    if (top_ == 0) return identity_of<Acc>(combine_);
    while (top_ > 1) {
      --top_;
      stack_[top_ - 1] = merge(combine_, stack_[top_ - 1], stack_[top_]);
    }
    return stack_[0];
  }

 private:
  Combine combine_;
  int top_ = 0;
  uint64_t count_ = 0;
  Acc stack_[64];
};

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

}  // namespace kaon::ops

namespace kaon {

namespace cuda {

// Stores results as `dtype`, after a division and a square root.
struct Results {
  void* data;
  DType dtype;
  double divisor = 1;
  bool root = false;
};

// The same on the stream of c. `wide`: floats accumulate in double, as they always do for sum_abs and sum_squares.
void reduce_dims(KernelContext& c, ops::Combine combine, const TensorView& in, std::span<const ops::ReduceDim> dims,
                 bool wide, const Results& results);

}  // namespace cuda

}  // namespace kaon

namespace kaon::ops {

// The dimensions of `shape` with the axes in `mask` (bit i: axis i) marked.
struct ReduceDims {
  ReduceDim items[Shape::max_ndim];
  int count;
  ReduceDims(const Shape& shape, uint32_t mask) : items{}, count(shape.ndim()) {
    for (int i = 0; i < count; ++i) items[i] = {shape[i], ((mask >> i) & 1) != 0};
  }
  std::span<const ReduceDim> span() const { return {items, size_t(count)}; }
};

inline double elements_per_result(std::span<const ReduceDim> dims) {
  double count = 1;
  for (const ReduceDim& d : dims) count *= d.reduced ? double(d.size) : 1;
  return count;
}

}  // namespace kaon::ops

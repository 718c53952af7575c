// Copies between two strided arrays: the kernel of transpose, slice, tile, broadcast and similar operators.
#pragma once

#include <array>
#include <span>

#include "kaon/ops/view.h"

namespace kaon::ops {

// One dimension, outermost first; strides count elements and may be 0 (repeat) or negative (reverse).
struct CopyDim {
  int64_t size = 1;
  int64_t src = 0;
  int64_t dst = 0;
};

// Room for the dimensions of a copy: 8 axes, each in two parts.
class CopyDims {
 public:
  void push(int64_t size, int64_t src, int64_t dst) { items_[count_++] = {size, src, dst}; }
  void erase(int i) {
    for (size_t k = size_t(i) + 1; k < count_; ++k) items_[k - 1] = items_[k];
    --count_;
  }
  int count() const { return int(count_); }
  std::span<const CopyDim> span() const { return {items_.data(), count_}; }
  const CopyDim& operator[](int i) const { return items_[size_t(i)]; }
  CopyDim& operator[](int i) { return items_[size_t(i)]; }
  const CopyDim& back() const { return items_[count_ - 1]; }
  int64_t elements() const {
    int64_t n = 1;
    for (const CopyDim& d : span()) n *= d.size;
    return n;
  }

 private:
  std::array<CopyDim, 2 * Shape::max_ndim> items_{};
  size_t count_ = 0;
};

// dst[dst + sum i_k dst_k] = src[src + sum i_k src_k] for all i. No two i share a destination.
struct StridedCopy {
  CopyDims dims;
  int64_t src = 0;  // elements
  int64_t dst = 0;
};

// The same copy without dimensions of 1 and with neighbours that step alike on both sides as one; at least one
// dimension. Copies of nothing have a dimension of 0.
CopyDims merge(const CopyDims& dims);
// For a merged copy whose innermost dimension is contiguous in the destination only: the dimension that is contiguous
// in the source, if both have at least `least` elements; -1: there is none.
int transposed_with(const CopyDims& dims, int64_t least);

// Elements of `width` bytes (1, 2, 4, 8). Runs are copied whole, transposed planes in tiles.
void strided_copy(RunContext& run, const StridedCopy& copy, const void* src, void* dst, size_t width);
// Copies from input 0 to output 0.
void strided_copy(KernelContext& c, const StridedCopy& copy);

// memcpy on all threads; nothing when the two are the same.
void copy_bytes(RunContext& run, const void* src, void* dst, size_t bytes);
// memset to 0 on all threads.
void zero_bytes(RunContext& run, void* dst, size_t bytes);

// Strides of a row-major array.
Shape strides_of(const Shape& shape);

}  // namespace kaon::ops

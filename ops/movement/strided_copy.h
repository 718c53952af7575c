// Copies between two strided arrays: the one kernel behind transpose, slice, tile, broadcast and their kin.
#pragma once

#include <array>
#include <span>

#include "kaon/ops/view.h"

namespace kaon {

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
  std::span<const CopyDim> span() const { return {items_.data(), count_}; }
  CopyDim& operator[](int i) { return items_[size_t(i)]; }

 private:
  std::array<CopyDim, 2 * Shape::max_ndim> items_{};
  size_t count_ = 0;
};

// dst[sum i_k dst_k] = src[sum i_k src_k] for all i, elements of `width` bytes (1, 2, 4, 8). No two i may share a
// destination. Runs are copied whole, transposed planes in tiles.
void strided_copy(RunContext& run, std::span<const CopyDim> dims, const void* src, void* dst, size_t width);

// memcpy on all threads; nothing when the two are the same.
void copy_bytes(RunContext& run, const void* src, void* dst, size_t bytes);
// memset to 0 on all threads.
void zero_bytes(RunContext& run, void* dst, size_t bytes);

// Strides of a row-major array.
Shape strides_of(const Shape& shape);

}  // namespace kaon

// Products with a matrix in the layout that the kernel likes best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/kernels/scratch.h"

namespace kaon::ops {

// C (m, n) = A (m, k) B of float32, all dense, for a B that is packed first.
// Thread safety: const functions from any thread; each call runs on its thread alone.
class PackedProduct {
 public:
  PackedProduct() = default;
  // B to be packed is (n, k) with dense rows when transpose_b; else (k, n) with rows `b_stride` apart.
  PackedProduct(int64_t m, int64_t n, int64_t k, bool transpose_b, int64_t b_stride);

  size_t bytes() const { return line_aligned(size_); }  // of a packed B, in whole cache lines
  bool takes_plain() const { return !to_inner_; }       // B as it is is packed
  void pack(const float* b, void* packed) const;
  void run(const float* a, const void* packed, float* c) const { product_.run(a, packed, c); }
  std::string implementation() const { return product_.implementation() + " packed once"; }

 private:
  onednn::Primitive product_, to_inner_;
  size_t size_ = 0;  // of B in the inner layout
};

}  // namespace kaon::ops

// Matrix products with one matrix again and again, for recurrences.
#pragma once

#include <cstdint>
#include <memory>

#include "kaon/ops/linalg/kernels/gemm.h"

namespace kaon::ops {

// C (m, n) = A B for many A (m, k), in pieces of columns that may run at the same time. B is (k, n), or (n, k) when
// transpose_b. Its layout for the kernel is made once, in the constructor, and it must stay as it is.
// Thread safety: a piece belongs to one thread at a time.
template <class T>
class RepeatedGemm {
 public:
  // Pieces of `width` columns, the last of what is left; or one piece where the kernel cannot be split, or splits
  // itself. `c` must have no state: a call has several products.
  RepeatedGemm(KernelContext& c, int64_t m, int64_t n, int64_t k, const T* b, bool transpose_b, int64_t width);
  ~RepeatedGemm();
  RepeatedGemm(const RepeatedGemm&) = delete;
  RepeatedGemm& operator=(const RepeatedGemm&) = delete;

  int64_t pieces() const { return pieces_; }
  int64_t width() const { return width_; }
  int64_t columns_of(int64_t piece) const { return piece + 1 < pieces_ ? width_ : n_ - piece * width_; }
  // Whether pieces() calls of run() may be pieces of a parallel loop; a single piece may use the engine's threads
  // itself.
  bool is_split() const { return pieces_ > 1; }
  // The piece's columns of C, as a dense (m, columns_of(piece)).
  void run(int64_t piece, const T* a, T* out) const;

 private:
  struct Packed;
  KernelContext& c_;
  int64_t m_, n_, k_, width_, pieces_;
  const T* b_;
  bool transpose_b_;
  std::unique_ptr<Packed> packed_;
};

}  // namespace kaon::ops

// Matrix products of one node, for dot, batch_dot, FullyConnected and their gradients.
#pragma once

#include <cstdint>

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// C (m, n) = op(A) op(B) and then the epilogue, whose channels are the n columns; all row-major and dense. op(A) is
// (m, k): A itself is (m, k), or (k, m) when transpose_a; likewise op(B) is (k, n). An addend is not C itself.
template <class T>
struct Gemm {
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  Epilogue<T> epilogue{};
};

// Splits the product into blocks of C that are fixed by its shape. One row or one column is a matrix-vector product.
void gemm(KernelContext& c, const Gemm<float>& g);
void gemm(KernelContext& c, const Gemm<double>& g);

// C[i] = op(A[i]) op(B[i]) for `batch` consecutive matrices.
void batch_gemm(KernelContext& c, const Gemm<float>& first, int64_t batch);
void batch_gemm(KernelContext& c, const Gemm<double>& first, int64_t batch);

// Multiplications and additions of `batch` products by the shapes of all their operands, A, B and C.
double gemm_flops(const Shape& a, const Shape& b, const Shape& c, int64_t batch = 1);

}  // namespace kaon::ops

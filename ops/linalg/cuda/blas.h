// Matrix products on the GPU, by cuBLASLt. A light header: .cu files read it.
#pragma once

#include "kaon/ops/kernels/epilogue.h"

namespace kaon::cuda {

// C (m, n) = op(A) op(B) and then the epilogue, whose channels are the n columns; all row-major and dense, in device
// memory. op(A) is (m, k): A itself is (m, k), or (k, m) when transpose_a; likewise op(B) is (k, n). `batch` such
// products of consecutive matrices, or with `same_a` all of one A; an epilogue is for one product, and its addend may
// be C itself unless k is 0.
struct MatrixProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  DType dtype = DType::float32;  // a floating one; 16-bit floats accumulate in float32
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  bool same_a = false;
  Epilogue<void> epilogue{};
};

// Launches it. The same sizes, dtype and alignments give the same bits. Throws DeviceError.
void multiply(KernelContext& c, const MatrixProduct& p);

}  // namespace kaon::cuda

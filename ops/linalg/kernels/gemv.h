// Matrix-vector products, for networks at batch 1.
#pragma once

#include <cstdint>

#include "kaon/engine/run_context.h"
#include "kaon/ops/kernels/epilogue.h"

namespace kaon::ops {

// y = W x, W (rows, columns) row-major, and then the epilogue, each row a channel. Bound by reading W once. Large
// matrices are split into row pieces fixed by their shape.
void gemv(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns,
          Epilogue<float> epilogue = {});

// y = x W: y[j] = sum over i of x[i] W[i, j].
void gemv_transposed(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns);
// Columns [first, last) of it, from y[first] on.
void gemv_transposed(const float* w, const float* x, float* y, int64_t rows, int64_t columns, int64_t first,
                     int64_t last);

}  // namespace kaon::ops

// Matrix-vector products: what a network does at batch 1.
#pragma once

#include <cstdint>

#include "kaon/engine/run_context.h"
#include "kaon/ops/nn/epilogue.h"

namespace kaon {

// y = W x, W (rows, columns) row-major, and then the epilogue, each row a channel. Bound by reading W once. Large
// matrices are split into row pieces fixed by their shape.
void gemv(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns,
          Epilogue<float> epilogue = {});

// y = x W: y[j] = sum over i of x[i] W[i, j].
void gemv_transposed(RunContext& run, const float* w, const float* x, float* y, int64_t rows, int64_t columns);

// Rows of W that lie together in a panel: the processor walks through one panel in one stream.
int64_t gemv_panel();
// gemv with W in panels: panel p is W's rows [p gemv_panel(), (p + 1) gemv_panel()), column by column. `rows` is a
// multiple of gemv_panel().
void gemv_panels(RunContext& run, const float* panels, const float* x, float* y, int64_t rows, int64_t columns,
                 const Epilogue<float>& epilogue);

}  // namespace kaon

// Weights of a few bits in blocks: products straight from the codes, and rows as numbers.
#pragma once

#include <cstdint>

#include "kaon/engine/run_context.h"

namespace kaon::ops {

// W (rows, columns), as op::BlockQuantizedDense describes it.
struct BlockWeights {
  int bits = 4;        // 2, 4 or 8
  int64_t block = 32;  // elements, a power of two, at least 16
  int64_t rows = 0, columns = 0;
  const uint8_t* codes = nullptr;         // (rows, blocks(), block bits / 8)
  const float* scales = nullptr;          // (rows, blocks())
  const float* zeros = nullptr;           // (rows, blocks()); null: packed_zeros, or 2^(bits - 1)
  const uint8_t* packed_zeros = nullptr;  // (rows, zero_bytes())

  int64_t blocks() const { return (columns + block - 1) / block; }
  int64_t row_bytes() const { return blocks() * block * bits / 8; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

// So many rows of x are multiplied straight from the codes; for more, unpacked weights are faster.
inline constexpr int64_t few_rows = 16;

// y (m, rows) = x (m, columns) W^T + bias, m at most few_rows; the bias may be null. The same bits for any number of
// threads. With one row, sums within a block are scaled once.
void block_products(RunContext& run, const BlockWeights& w, const float* x, int64_t m, const float* bias, float* y);

// Rows [begin, end) of W as numbers (end - begin, columns).
void unpack_rows(const BlockWeights& w, int64_t begin, int64_t end, float* to);

}  // namespace kaon::ops

// The steps of block programs, per instruction set.
#pragma once

#include "kaon/ops/fused/block.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

// Addresses of the operands of a block.
struct BlockFrame {
  static constexpr int max_places =
      BlockProgram::max_inputs + BlockProgram::max_outputs + BlockProgram::max_reduced + BlockProgram::max_slots;
  float* at[max_places];  // inputs are only read
  bool stream;            // outputs are stored past the caches
  uint8_t fetched;        // the number of first places that are prefetched
};

// All of one instruction set, so that its registers fit together.
struct BlockKernels {
  size_t block = 0;  // elements
  // Runs the steps on `blocks` blocks; after each the first `moving` places move on by one.
  void (*run)(const BlockStep* steps, BlockFrame& frame, size_t moving, size_t blocks) = nullptr;
  BlockMoves moves{};
  RegisterKernels registers{};
};
const BlockKernels& block_kernels();  // thread safety: any

inline constexpr size_t max_block = 128;  // elements of the longest block

}  // namespace kaon

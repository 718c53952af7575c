// The steps of block programs, per instruction set.
#pragma once

#include <array>

#include "kaon/ops/fused/block.h"
#include "kaon/ops/scalar_kind.h"
#include "kaon/ops/unary_kind.h"

namespace kaon {

// Addresses of the operands of a block.
struct BlockFrame {
  static constexpr int max_places =
      BlockProgram::max_inputs + BlockProgram::max_outputs + BlockProgram::max_reduced + BlockProgram::max_slots;
  float* at[max_places];  // inputs are only read
  bool stream;            // outputs are stored past the caches
  uint8_t fetched;        // the number of first places that are prefetched
};

// All of one instruction set, so that its registers fit together. Operators that cost more than a few instructions
// have no forms.
struct BlockKernels {
  size_t block = 0;  // elements
  // Runs the steps on `blocks` blocks; after each the first `moving` places move on by one.
  void (*run)(const BlockStep* steps, BlockFrame& frame, size_t moving, size_t blocks) = nullptr;
  BlockMoves moves{};
  std::array<BlockFn, unary_kinds> unary{};
  std::array<RegisterForms, unary_backward_kinds> unary_backward{};
  std::array<RegisterForms, binary_kinds> binary{};
  std::array<BlockFn, scalar_kinds> scalar{};
  BlockFn root = nullptr;  // the power 0.5
  BlockFn clip = nullptr;
  RegisterForms clip_backward{};
  BlockFn where = nullptr;
};
const BlockKernels& block_kernels();  // thread safety: any

inline constexpr size_t max_block = 128;  // elements of the longest block

}  // namespace kaon

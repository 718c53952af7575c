// The steps of vector programs, per instruction set.
#pragma once

#include "kaon/ops/fused/vector_program.h"

namespace kaon::ops {

// Addresses of the operands of a block.
struct VectorFrame {
  static constexpr int max_operands =
      VectorProgram::max_inputs + VectorProgram::max_outputs + VectorProgram::max_reduced + VectorProgram::max_slots;
  float* at[max_operands];  // inputs are only read
  bool stream;              // outputs are stored past the caches
  uint8_t fetched;          // the number of first operands that are prefetched
};

// All of one instruction set, so that its registers fit together.
struct VectorKernels {
  size_t block = 0;  // elements
  // Runs the steps on `blocks` blocks; after each the first `moving` operands move on by one.
  void (*run)(const VectorStep* steps, VectorFrame& frame, size_t moving, size_t blocks) = nullptr;
  VectorMoves moves{};
  RegisterKernels registers{};
};
const VectorKernels& vector_kernels();  // thread safety: any

inline constexpr size_t max_block = 128;  // elements of the longest block

}  // namespace kaon::ops

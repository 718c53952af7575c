// VectorProgram: a chain of pointwise float32 operators as steps on vectors in registers; plans compile chains to it.
#pragma once

#include "kaon/ops/operator/fused_forms.h"
#include "kaon/ops/reduce/kernels/reduce_kernels.h"
#include "kaon/ops/view.h"

namespace kaon {

struct OpDef;

}  // namespace kaon

namespace kaon::ops {

// How it works. A block is eight vectors of one instruction set (128 elements where they have 512 bits). Its eight
// registers are handed from step to step: a step is a function that computes on them and calls the next one. Cheap
// operators (a few instructions) are such steps, with at most one operand in memory; the others are called as tiles
// (tile.h) on the block's elements in L1. Every element goes through the same functions as in an imperative call, so
// results are bit-equal.

// An operator's forms in programs; without its hook `fused_forms` none.
FusedForms vector_forms(const OpDef& def, const void* attrs);

// Steps name memory by number, in this order: inputs of the output's shape, inputs that broadcast, outputs, values
// that are reduced, inputs of one element, slots (a block each). The first four advance with the blocks.
struct VectorStep {
  static constexpr size_t attrs_bytes = 32;
  StepFn run = nullptr;
  TileFn tile = nullptr;
  uint8_t operand[3] = {};  // the numbers of those in memory
  uint8_t result = 0;       // the output of a tile
  StepNumbers numbers{};
  alignas(8) std::byte attrs[attrs_bytes] = {};  // of a tile: the operator's struct
  friend bool operator==(const VectorStep&, const VectorStep&) = default;
};

// A reduction over runs of `row` consecutive elements of a value of the program.
struct VectorReduction {
  Combine combine = Combine::sum;
  bool mean = false;
  friend bool operator==(const VectorReduction&, const VectorReduction&) = default;
};

// A plain value, so that it can be an operator's attribute.
struct VectorProgram {
  static constexpr int max_steps = 64, max_inputs = 32, max_broadcast = 8, max_outputs = 32, max_reduced = 4,
                       max_slots = 16;
  uint8_t num_steps = 0, num_dense = 0, num_broadcast = 0, num_outputs = 0, num_reduced = 0, num_uniform = 0,
          num_slots = 0;
  uint8_t num_dims = 0;                                 // of the broadcast inputs
  int64_t grain = 0;                                    // elements per piece of parallel work
  int64_t row = 0;                                      // elements that are reduced to one; at least 2
  int64_t size[Shape::max_ndim] = {};                   // the output's dimensions in memory order, merged
  int64_t stride[max_broadcast][Shape::max_ndim] = {};  // of a broadcast input, in elements; 0: repeated
  VectorReduction reductions[max_reduced] = {};
  VectorStep steps[max_steps] = {};

  int num_inputs() const { return num_dense + num_broadcast + num_uniform; }
  friend bool operator==(const VectorProgram&, const VectorProgram&) = default;
};

// The steps that move blocks between registers and memory.
struct VectorMoves {
  StepFn load;          // from operand[0]
  StepFn store;         // to operand[0], a slot or a value that is reduced
  StepFn store_output;  // to operand[0], an output, which may be stored past the caches
  StepFn tile;          // calls the step's tile function: operands in memory, registers are lost
  StepFn end;           // the last step
};
const VectorMoves& vector_moves();

// Runs a program over whole arrays. out[k][i] = output k of the program at element i < n; after the outputs, a result
// per row of each reduced value: the bits of reduce_dims(). `in`: the inputs in the program's order. Output 0 may be an
// input that is read element by element, when the program stores it after all reads.
void run_vector_program(const VectorProgram& program, const float* const* in, float* const* out, int64_t n,
                        RunContext& run);

}  // namespace kaon::ops

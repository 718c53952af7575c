// The part that a float32 operator can take in a fused program on the CPU (ops/fused/vector_program.h).
#pragma once

#include <array>
#include <cstdint>

#include "kaon/ops/attributes.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/math/tile.h"

namespace kaon::ops {

// A step function; its real type, with the registers, is known to ops/fused/vector_kernels.cpp.
using StepFn = void (*)();

// An operator's attributes, rounded to float32: a scalar, or the bounds of a clip.
struct StepNumbers {
  float first = 0, second = 0;
  friend bool operator==(const StepNumbers& a, const StepNumbers& b) {
    return same_value(a.first, b.first) && same_value(a.second, b.second);
  }
};

// The functions that compute an operator in registers; nullptr: it has no such form. The operand in memory is the
// step's first one.
struct RegisterForms {
  StepFn one = nullptr;    // r = f(r)
  StepFn right = nullptr;  // r = f(r, memory)
  StepFn left = nullptr;   // r = f(memory, r)
  StepFn three = nullptr;  // r = f(memory, memory, memory): the step's three operands
};

// The argument of `fused_forms`: all functions in registers, of the instruction set in use. Functions that cost more
// than a few instructions are not among them.
struct RegisterKernels {
  std::array<StepFn, unary_kinds> unary{};
  std::array<RegisterForms, unary_backward_kinds> unary_backward{};
  std::array<RegisterForms, binary_kinds> binary{};
  std::array<StepFn, scalar_kinds> scalar{};
  StepFn root = nullptr;  // the power 0.5
  StepFn clip = nullptr;
  RegisterForms clip_backward{};
  StepFn where = nullptr;
};

// Its result: the forms of an operator whose inputs and output are float32, with the function for tiles for one that
// has no form in registers. Without any of them, and if it does not copy, the operator cannot be part of a program.
struct FusedForms : RegisterForms {
  TileFn tile = nullptr;
  bool broadcasts = false;  // inputs may repeat, matched from the right unless `repeated` says how
  bool copies = false;      // the output is the input
  bool sums = false;        // any number of inputs, joined by `right` in their order
  StepNumbers numbers{};    // of steps in registers
  uint32_t repeated = 0;    // not 0: bit i: the input repeats along dimension i of the output, and has all others
};

}  // namespace kaon::ops

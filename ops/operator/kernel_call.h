// A kernel call as an engine operation.
#pragma once

#include <span>
#include <string>

#include "kaon/engine/engine.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

// Whether other threads or operations may know the arrays that a call writes.
enum class Outputs : uint8_t { unknown_to_others, known };

// Pushes def's kernel: reads `inputs` (updates those that the operator mutates), writes `outputs`. Nodes are kept
// alive until it has run; null outputs, apart from the first, are not computed. Random numbers are drawn here. The
// operation is pushed to the engine of the arrays.
void push_kernel(const OpDef& def, const void* attrs, std::span<ArrayNode* const> inputs,
                 std::span<ArrayNode* const> outputs, Outputs known, const OpLabel& label, bool training);

// ", computing (2, 4) float32 from (2, 3) float32, (3, 4) float32": the text for an operator that failed.
std::string describe_arrays(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs);

// Whether a call in this mode draws random numbers. Imperative calls and plans draw alike.
inline bool draws_numbers(const OpDef& def, const void* attrs, bool training) {
  const OpTraits& traits = def.traits_of(attrs);
  return traits.random && (training || !traits.mode_dependent);
}
// Random numbers that a call with this first output uses.
uint64_t random_draws(const Shape& output);

}  // namespace kaon::ops

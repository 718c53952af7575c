// Pointwise operators as expressions of the element functions that the imperative CUDA kernels call.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kaon/graph/ir/graph.h"

namespace kaon::passes {

// The C++ type of an array's elements, and the one in which they are computed: float for 16-bit floats.
const char* element_type(DType dtype);
const char* value_type(DType dtype);

// An expression for a node's value from the names of its inputs' values, of these dtypes, rounded as the imperative
// kernel stores it. Nothing if its operator has no element function.
std::optional<std::string> kernel_expression(const Node& node, std::span<const std::string> inputs,
                                             std::span<const DType> dtypes);

}  // namespace kaon::passes

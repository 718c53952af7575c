// A loaded model for inputs of certain shapes alone: dimensions that it leaves open become numbers.
#pragma once

#include <optional>
#include <vector>

#include "kaon/interchange/onnx/format/model.h"
#include "kaon/ops/shape.h"

namespace kaon::onnx::block {

// A shape by place in the graph's inputs and outputs, nothing where none is known. Dimensions by name get the inputs'
// sizes everywhere in the graph, those of graphs inside it aside. Throws ShapeError where one name has two sizes.
void fix_shapes(format::Graph& graph, const std::vector<std::optional<Shape>>& inputs,
                const std::vector<std::optional<Shape>>& outputs);

}  // namespace kaon::onnx::block

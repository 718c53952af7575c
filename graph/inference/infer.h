// What follows for the shapes and dtypes of a program from those of some of its variables: a fixed point over the
// graph, forward and backward. Symbol::infer_shape_partial and infer_type; what MXNet's functions of the same purpose
// give, and more where more follows.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::graph {

struct InferenceOptions {
  // What a program left open and nothing else decides gets what it has in a run: 0 the dimensions of
  // zeros(shape=(0, 4)), float32 a variable of a known shape. false: it stays unknown.
  bool closes = true;
  // Whether 0 in the shape of an array that is made of numbers is a dimension that the program left open, as in MXNet
  // without NumPy's shapes, or a size.
  bool zeros_are_open = true;
  // TypeError where an operator refuses the dtypes of its inputs, as far as these are known. false: inference of shapes
  // does without its infer there.
  bool checks_types = false;
  // Contradictions of dtypes end the search at their node, and are no errors.
  bool is_tolerant = false;
  // Where the node is stored at which an error was found; it outlives the program's handles only.
  const SymbolNode** failed = nullptr;
};

template <class Known>
using ByNode = std::unordered_map<const SymbolNode*, std::vector<Known>>;  // by output

// Both throw ValueError for a name that is no variable, and ShapeError or TypeError naming the node for what
// contradicts itself. Thread safety: the program does not change; any thread.
ByNode<Shape> infer_shapes(const std::vector<SymbolEntry>& heads, const Shapes& known,
                           const InferenceOptions& options = {});
ByNode<std::optional<DType>> infer_types(const std::vector<SymbolEntry>& heads, const DTypes& known,
                                         const InferenceOptions& options = {});

// The program with the shapes that follow from `known` written into the nodes that make arrays of open shapes:
// zeros(shape=(0, 4)) + x is what x's shape makes of it. Nothing changes where nothing is open.
Symbol with_closed_shapes(const Symbol& program, const Shapes& known);

}  // namespace kaon::graph

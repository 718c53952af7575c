// Symbol's questions about shapes and dtypes.
#include <fmt/format.h>

#include "kaon/graph/inference/infer.h"
#include "kaon/graph/ir/variables.h"

namespace kaon {

using namespace graph;

namespace {
Symbol::InferredShapes shapes_of(const Symbol& s, const ByNode<Shape>& shapes) {
  Symbol::InferredShapes result;
  const auto& heads = s.entries();
  for (const SymbolNode* v : variables(heads, VariableKind::argument)) result.arguments.push_back(shapes.at(v)[0]);
  for (const SymbolNode* v : variables(heads, VariableKind::auxiliary)) {
    result.auxiliary_states.push_back(shapes.at(v)[0]);
  }
  for (const SymbolEntry& e : heads) result.outputs.push_back(shapes.at(e.node.get())[e.output]);
  return result;
}
}  // namespace

Symbol::InferredShapes Symbol::infer_shape_partial(const Shapes& known) const {
  return shapes_of(*this, infer_shapes(entries_, known));
}

Symbol::InferredShapes Symbol::infer_shape(const Shapes& known) const {
  const ByNode<Shape> shapes = infer_shapes(entries_, known, {.checks_types = true});
  for (const SymbolNode* n : topological_order(entries_)) {
    for (const SymbolEntry& e : n->inputs) {
      if (shapes.at(e.node.get())[e.output].is_known()) continue;
      throw ShapeError(
          fmt::format("[infer_shape] the shape of '{}', an input of {} ({}), does not follow from the given shapes",
                      e.node->name, n->name, n->op->name()));
    }
  }
  return shapes_of(*this, shapes);
}

Symbol::InferredTypes Symbol::infer_type(const DTypes& known) const {
  const ByNode<std::optional<DType>> types = infer_types(entries_, known);
  InferredTypes result;
  for (const SymbolNode* v : variables(entries_, VariableKind::argument)) result.arguments.push_back(types.at(v)[0]);
  for (const SymbolNode* v : variables(entries_, VariableKind::auxiliary)) {
    result.auxiliary_states.push_back(types.at(v)[0]);
  }
  for (const SymbolEntry& e : entries_) result.outputs.push_back(types.at(e.node.get())[e.output]);
  return result;
}

}  // namespace kaon

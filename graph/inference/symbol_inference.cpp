// Symbol's questions about shapes and dtypes.
#include "kaon/graph/inference/infer.h"
#include "kaon/graph/ir/variables.h"

namespace kaon {

using namespace graph;

Symbol::InferredShapes Symbol::infer_shape_partial(const Shapes& known) const {
  const ByNode<Shape> shapes = infer_shapes(entries_, known);
  InferredShapes result;
  for (const SymbolNode* v : variables(entries_, VariableKind::argument)) result.arguments.push_back(shapes.at(v)[0]);
  for (const SymbolNode* v : variables(entries_, VariableKind::auxiliary)) {
    result.auxiliary_states.push_back(shapes.at(v)[0]);
  }
  for (const SymbolEntry& e : entries_) result.outputs.push_back(shapes.at(e.node.get())[e.output]);
  return result;
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

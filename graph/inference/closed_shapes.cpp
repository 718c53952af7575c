#include <cstring>

#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

namespace {

// A node like this one, with other attributes.
SymbolEntry changed(const SymbolNode& node, FunctionRef<void(void* attrs)> change) {
  IntrusivePtr<SymbolNode> n = make_node(node.op, node.name);
  n->op_name = node.op_name;
  n->text_attrs = node.text_attrs;
  n->attrs = Attributes(*node.op);
  std::memcpy(n->attrs.edit(), node.attrs.get(), node.op->attrs_size);
  change(n->attrs.edit());
  n->outputs.resize(node.outputs.size());
  infer_node(*n);
  return {n, 0};
}

}  // namespace

Symbol with_closed_shapes(const Symbol& program, const Shapes& known) {
  bool any = false;
  for (const SymbolNode* n : topological_order(program.entries())) any = any || open_shape(*n, true);
  if (!any) return program;
  const ByNode<Shape> shapes = infer_shapes(program.entries(), known);
  return with_replaced(program, [&](const SymbolNode& n, const std::vector<SymbolEntry>&) -> SymbolEntry {
    if (!open_shape(n, true)) return {};
    const Shape& shape = shapes.at(&n)[0];
    if (!shape.is_known()) return {};
    return changed(n, [&](void* attrs) { close_shape(*n.op, attrs, shape); });
  });
}

}  // namespace kaon::graph

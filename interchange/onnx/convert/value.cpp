#include "kaon/interchange/onnx/convert/value.h"

#include <algorithm>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::onnx::convert {

bool Value::is_constant() const {
  if (kind == Kind::tensor) return known.defined() && !is_parameter;
  if (kind == Kind::sequence)
    return std::all_of(items.begin(), items.end(), [](const Value& v) { return v.is_constant(); });
  return true;
}

// Without Symbol::shape(), which would tie a trace to these shapes: the conversion says so itself where it is in one.
const Shape& Value::shape() const {
  if (kind == Kind::strings) return strings_shape;
  if (known.defined()) return known.shape();
  const SymbolEntry& e = symbol.entry();
  return e.node->outputs[e.output].shape;
}

DType Value::dtype() const {
  if (known.defined()) return known.dtype();
  const SymbolEntry& e = symbol.entry();
  return e.node->outputs[e.output].dtype;
}

Value Value::constant(const NDArray& values, ElementType type) {
  Value v;
  v.kind = Kind::tensor;
  v.type = type;
  v.known = values;
  v.symbol = Symbol::constant(values);
  return v;
}

Value Value::of(Symbol symbol, ElementType type) {
  Value v;
  v.kind = Kind::tensor;
  v.type = type;
  v.symbol = std::move(symbol);
  return v;
}

Value Value::of(Symbol symbol) {
  Value v = of(std::move(symbol), ElementType::undefined);
  v.type = format::element_type_of(v.dtype());
  return v;
}

Value Value::text(std::vector<std::string> strings, const Shape& shape) {
  Value v;
  v.kind = Kind::strings;
  v.type = ElementType::string;
  v.strings = std::move(strings);
  v.strings_shape = shape;
  return v;
}

Value Value::sequence(std::vector<Value> items, ElementType type) {
  Value v;
  v.kind = Kind::sequence;
  v.type = type;
  v.items = std::move(items);
  return v;
}

}  // namespace kaon::onnx::convert

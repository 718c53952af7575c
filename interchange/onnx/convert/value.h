// Value: what a name of an ONNX graph stands for while it is converted.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/symbol.h"
#include "kaon/interchange/onnx/format/element_type.h"

namespace kaon::onnx::convert {

using format::ElementType;

// A tensor, a sequence of these, a tensor of strings, or nothing (an optional without a value, an input that is left
// out).
struct Value {
  enum class Kind : uint8_t { nothing, tensor, sequence, strings };
  Kind kind = Kind::nothing;
  ElementType type = ElementType::undefined;
  Symbol symbol;  // of a tensor
  NDArray known;  // its values, where the model says them: of constants, and the first ones of parameters
  bool is_parameter = false;
  Symbol turned;             // of a parameter that is stored transposed: that variable, whose transpose `symbol` is
  std::vector<Value> items;  // of a sequence
  std::vector<std::string> strings;  // row-major
  Shape strings_shape;

  bool is_constant() const;  // the same whatever the inputs and parameters are
  const Shape& shape() const;
  DType dtype() const;

  static Value constant(const NDArray& values, ElementType type);
  static Value constant(const NDArray& values) { return constant(values, format::element_type_of(values.dtype())); }
  static Value of(Symbol symbol, ElementType type);
  static Value of(Symbol symbol);
  static Value text(std::vector<std::string> strings, const Shape& shape);
  static Value sequence(std::vector<Value> items, ElementType type);
};

}  // namespace kaon::onnx::convert

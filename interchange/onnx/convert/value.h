// Value: what a name of an ONNX graph stands for while it is converted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kaon/graph/symbol.h"
#include "kaon/interchange/onnx/format/element_type.h"

namespace kaon::onnx::convert {

using format::ElementType;

// What the numbers of a dequantised tensor are made of: scale (numbers - zero), both known, one for all or one for each
// index of `axis`.
struct Levels {
  Symbol numbers;  // int8 or uint8
  NDArray known;   // their values, where the model says them
  std::vector<double> scale;
  std::vector<int64_t> zero;  // as many, or one
  int axis = 1;
};

// A layer of whole numbers, before something is done with its sums; or another operator that a QuantizeLinear joins.
struct IntegerLayer {
  // Of another operator: its results as multiples of a step, plus `zero`.
  std::function<Symbol(DType out, double step, int64_t zero, bool relu)> join;
  // The layer with results of this dtype, sums times scale[filter] rounded and moved by `zero`.
  std::function<Symbol(DType out, const std::vector<double>& scale, int zero, bool relu)> make;
  std::vector<double> scale;         // that makes the layer's numbers of sums, by filter
  std::vector<int64_t> weight_sums;  // of the weights, by filter
  bool relu = false;                 // follows the layer
};

// A tensor, a sequence of these, a tensor of strings, or nothing (an optional without a value, an input that is left
// out).
struct Value {
  enum class Kind : uint8_t { nothing, tensor, sequence, strings };
  Kind kind = Kind::nothing;
  ElementType type = ElementType::undefined;
  Symbol symbol;  // of a tensor
  NDArray known;  // its values, where the model says them: of constants, and the first ones of parameters
  bool is_parameter = false;
  std::shared_ptr<const Levels> levels;       // of a tensor that is dequantised, where they are known
  std::shared_ptr<const IntegerLayer> layer;  // that has computed the tensor: a QuantizeLinear joins it
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

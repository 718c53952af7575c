// Call: one node of an ONNX graph with its inputs, as the function sees it that converts its operator.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/interchange/onnx/convert/conversion.h"
#include "kaon/interchange/onnx/convert/value.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::convert {

class Call {
 public:
  Call(const format::Node& node, int64_t opset, Conversion& conversion, std::vector<Value> inputs);

  const format::Node& node() const { return node_; }
  int64_t opset() const { return opset_; }
  Conversion& conversion() const { return conversion_; }

  // --- inputs
  int count() const { return int(inputs_.size()); }
  bool has(int i) const { return i < count() && inputs_[size_t(i)].kind != Value::Kind::nothing; }
  const Value& input(int i) const;   // throws ValueError where it is left out
  const Symbol& x(int i = 0) const;  // a tensor
  const Shape& shape(int i = 0) const { return input(i).shape(); }
  int rank(int i = 0) const { return shape(i).ndim(); }
  DType dtype(int i = 0) const { return input(i).dtype(); }
  ElementType type(int i = 0) const { return input(i).type; }
  std::vector<int64_t> integers(int i) const;  // values, which this conversion then holds for
  std::vector<double> numbers(int i) const;
  double number(int i) const;  // of one element
  std::vector<Value> all() const { return inputs_; }

  // --- attributes
  bool has(std::string_view attribute) const { return node_.find(attribute) != nullptr; }
  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  double real(std::string_view attribute, double otherwise) const;
  std::string text(std::string_view attribute, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view attribute, const std::vector<int64_t>& otherwise = {}) const;
  std::vector<double> reals(std::string_view attribute, const std::vector<double>& otherwise = {}) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  const format::Graph& graph(std::string_view attribute) const;
  // Counted from the end where it is negative.
  int axis(std::string_view attribute, int64_t otherwise, int rank) const;
  int axis(int64_t axis, int rank) const;

  // --- outputs
  int num_outputs() const { return int(node_.outputs.size()); }
  bool wants(int i) const { return i < num_outputs() && !node_.outputs[size_t(i)].empty(); }
  void set(int i, Value value);
  void set(Value value) { set(0, std::move(value)); }
  void set(int i, Symbol symbol) { set(i, Value::of(std::move(symbol))); }
  void set(Symbol symbol) { set(0, std::move(symbol)); }
  void set_like(const Value& input, Symbol symbol);  // of the input's element type
  std::vector<Value>& outputs() { return outputs_; }
  // The outputs differ from call to call, also where all inputs are constant: they do not become constants.
  void keep() { folds_ = false; }
  bool folds() const { return folds_; }

  [[noreturn]] void fail(const std::string& why) const;             // ValueError
  [[noreturn]] void fail_supported(const std::string& what) const;  // "... is not supported"

 private:
  const format::Attribute* find(std::string_view attribute, format::Attribute::Type type) const;
  const format::Node& node_;
  int64_t opset_;
  Conversion& conversion_;
  std::vector<Value> inputs_, outputs_;
  bool folds_ = true;
};

using Converter = void (*)(Call& call);

// A row of the table of operators: a function for the versions of an operator.
struct Row {
  std::string_view op_type;
  Converter convert;
  int since = 1;  // the first version of its domain's operators that the function knows
  std::string_view domain = "";
};

// The function for an operator at a version of its domain; nullptr: there is none.
Converter find_converter(std::string_view domain, std::string_view op_type, int64_t version);
// All rows, by family.
std::vector<std::span<const Row>> all_rows();

}  // namespace kaon::onnx::convert

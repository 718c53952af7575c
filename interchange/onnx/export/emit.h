// Emit: one operator of a program of Symbols while it is written as ONNX nodes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::exporting {

using format::Attribute;

Attribute integer(std::string_view name, int64_t value);
Attribute real(std::string_view name, double value);
Attribute text(std::string_view name, std::string_view value);
Attribute integers(std::string_view name, const std::vector<int64_t>& values);

// The graph that is made. Names of values are unique.
class Builder {
 public:
  // Whether constant() gives equal values the same name.
  enum class Constants : uint8_t { shared, apart };
  explicit Builder(int64_t opset, Constants constants = Constants::shared) : opset_(opset), how_(constants) {}

  int64_t opset() const { return opset_; }
  std::string unique(std::string_view name);
  // A node with these inputs ("": left out); its outputs, of which there are `outputs`.
  std::vector<std::string> nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                 std::vector<Attribute> attributes, int outputs, std::string_view name);
  std::string initializer(const NDArray& values, std::string_view name);
  std::string constant(const std::vector<int64_t>& values);  // int64 (n,)
  std::string scalar(double value, DType dtype);             // of shape ()
  format::Graph& graph() { return graph_; }
  const format::Graph& graph() const { return graph_; }
  // Of the graph's initializers, which have no elements yet.
  std::vector<NDArray>& arrays() { return arrays_; }
  const std::vector<NDArray>& arrays() const { return arrays_; }

 private:
  int64_t opset_;
  Constants how_;
  format::Graph graph_;
  std::vector<NDArray> arrays_;
  std::unordered_set<std::string> names_;
  std::map<std::vector<int64_t>, std::string> constants_;
};

class Emit {
 public:
  Emit(const graph::SymbolNode& node, Builder& builder, std::vector<std::string> inputs)
      : node_(node), builder_(builder), inputs_(std::move(inputs)), outputs_(node.outputs.size()) {}

  template <class Op>
  const Op& op() const {
    return *static_cast<const Op*>(node_.attrs.get());
  }
  Builder& builder() { return builder_; }
  int count() const { return int(inputs_.size()); }
  const std::string& in(int i = 0) const { return inputs_[size_t(i)]; }
  const std::vector<std::string>& all() const { return inputs_; }
  const Shape& shape(int i = 0) const {
    return node_.inputs[size_t(i)].node->outputs[node_.inputs[size_t(i)].output].shape;
  }
  DType dtype(int i = 0) const { return node_.inputs[size_t(i)].node->outputs[node_.inputs[size_t(i)].output].dtype; }
  const Shape& result(int i = 0) const { return node_.outputs[size_t(i)].shape; }
  DType result_dtype(int i = 0) const { return node_.outputs[size_t(i)].dtype; }
  int num_outputs() const { return node_.visible_outputs(); }

  // A node with one output.
  std::string node(std::string_view op_type, const std::vector<std::string>& inputs,
                   std::vector<Attribute> attributes = {});
  std::string reshape(const std::string& x, const Shape& shape);
  std::string cast(const std::string& x, DType dtype);
  std::string number(double value) { return builder_.scalar(value, dtype()); }
  std::string number(double value, DType dtype) { return builder_.scalar(value, dtype); }
  void set(std::string name, int i = 0) { outputs_[size_t(i)] = std::move(name); }
  const std::vector<std::string>& outputs() const { return outputs_; }
  [[noreturn]] void fail(const std::string& what) const;  // ValueError: "... is not written"

 private:
  const graph::SymbolNode& node_;
  Builder& builder_;
  std::vector<std::string> inputs_, outputs_;
};

// What writes an operator.
using Writer = void (*)(Emit& e);
struct WriterRow {
  const OpDef* op;
  Writer write;
};

std::span<const WriterRow> elementwise_writers();
std::span<const WriterRow> layer_writers();
std::span<const WriterRow> movement_writers();
std::span<const WriterRow> recurrent_writers();
Writer find_writer(const OpDef& op);  // nullptr: there is none

}  // namespace kaon::onnx::exporting

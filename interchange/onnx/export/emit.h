// Emit: one operator of a program of Symbols while it is written as ONNX nodes.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::exporting {

using format::Attribute;

inline constexpr std::string_view runtime_domain = "com.microsoft";  // of ONNX Runtime's own operators

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
  bool has_constants_apart() const { return how_ == Constants::apart; }
  std::string unique(std::string_view name);
  // A node with these inputs ("": left out); its outputs, of which there are `outputs`.
  std::vector<std::string> nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                 std::vector<Attribute> attributes, int outputs, std::string_view name,
                                 std::string_view domain = "");
  std::string input(std::string_view name, const TensorMeta& meta);  // of the model
  std::string initializer(const NDArray& values, std::string_view name);
  // What the program says of a value that nodes() has made: before, bfloat16 is taken to stay bfloat16.
  void set_dtype(const std::string& value, DType dtype);
  std::string constant(const std::vector<int64_t>& values);  // int64 (n,)
  std::string scalar(double value, DType dtype);             // of shape ()
  format::Graph& graph() { return graph_; }
  const format::Graph& graph() const { return graph_; }
  // Throws ValueError naming the node that is written.
  [[noreturn]] void fail(const std::string& what) const;
  // The same before this opset.
  void require(int64_t opset, std::string_view what) const;
  // What is written until close_graph() is the body of a loop or a branch, which sees the values of the graphs around
  // it. Arrays are those of the whole model.
  void open_graph(std::string_view name);
  // An input of the open graph; its outputs, which get names of their own.
  std::string body_input(std::string_view name, const TensorMeta& meta);
  void set_body_outputs(const std::vector<std::string>& values, const std::vector<TensorMeta>& metas);
  std::shared_ptr<format::Graph> close_graph();
  // The node that is written, for messages; within it, its parts are.
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name, std::string_view op)
        : builder_(builder), outermost_(builder.label_.empty()) {
      if (outermost_) builder_.label_ = label_of(name, op);
    }
    ~Scope() {
      if (outermost_) builder_.label_.clear();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    static std::string label_of(std::string_view name, std::string_view op);
    Builder& builder_;
    bool outermost_;
  };
  // Of the graph's initializers, which have no elements yet.
  std::vector<NDArray>& arrays() { return arrays_; }
  const std::vector<NDArray>& arrays() const { return arrays_; }

 private:
  int64_t opset_;
  Constants how_;
  std::string label_;  // "node x (op): ", or nothing
  format::Graph graph_;
  std::vector<format::Graph> bodies_;  // those that are open, the innermost last
  std::vector<NDArray> arrays_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string>
      bfloat16_;  // values of this dtype, which many operators take since a late opset alone
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
  int rank(int i = 0) const { return shape(i).ndim(); }
  int axis(int64_t a, int i = 0) const { return int(a < 0 ? a + rank(i) : a); }  // counted from the begin
  bool is_real(int i = 0) const { return is_floating(dtype(i)); }
  int64_t opset() const { return builder_.opset(); }

  // A node with one output.
  std::string node(std::string_view op_type, const std::vector<std::string>& inputs,
                   std::vector<Attribute> attributes = {});
  // The same of an operator of ONNX Runtime's.
  std::string runtime_node(std::string_view op_type, const std::vector<std::string>& inputs,
                           std::vector<Attribute> attributes);
  std::vector<std::string> nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                 std::vector<Attribute> attributes, int outputs);
  std::string reshape(const std::string& x, const Shape& shape);
  std::string cast(const std::string& x, DType dtype);
  std::string transpose(const std::string& x, const std::vector<int64_t>& perm);
  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  std::string expand(const std::string& x, const Shape& shape);
  std::string add(const std::string& a, const std::string& b) { return node("Add", {a, b}); }
  std::string sub(const std::string& a, const std::string& b) { return node("Sub", {a, b}); }
  std::string mul(const std::string& a, const std::string& b) { return node("Mul", {a, b}); }
  std::string div(const std::string& a, const std::string& b) { return node("Div", {a, b}); }
  std::string less(const std::string& a, const std::string& b) { return node("Less", {a, b}); }
  std::string equal(const std::string& a, const std::string& b) { return node("Equal", {a, b}); }
  std::string where(const std::string& condition, const std::string& a, const std::string& b) {
    return node("Where", {condition, a, b});
  }
  std::string concat(const std::vector<std::string>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : node("Concat", parts, {integer("axis", axis)});
  }
  std::string matmul(const std::string& a, const std::string& b) { return node("MatMul", {a, b}); }
  // A reduction over axes, which are inputs or an attribute as the opset has it.
  std::string reduce(std::string_view op_type, const std::string& x, const std::vector<int64_t>& axes, bool keepdims);
  std::string array(const std::vector<double>& values, const Shape& shape, DType dtype);
  // Input i as int64 among n, as `mode` says.
  std::string index(int i, IndexMode mode, int64_t n);
  const graph::SymbolNode& symbol() const { return node_; }
  void set_parts();  // the node as what it is made of
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

format::ValueInfo info_of(std::string_view name, const TensorMeta& meta);
Attribute body(std::string_view name, std::shared_ptr<format::Graph> graph);

// What writes an operator.
using Writer = void (*)(Emit& e);
struct WriterRow {
  const OpDef* op;
  Writer write;
};

std::span<const WriterRow> elementwise_writers();
std::span<const WriterRow> numeric_writers();
std::span<const WriterRow> reduction_writers();
std::span<const WriterRow> indexing_writers();
std::span<const WriterRow> convolution_writers();
std::span<const WriterRow> image_writers();
std::span<const WriterRow> detection_writers();
std::span<const WriterRow> attention_writers();
std::span<const WriterRow> control_writers();
std::span<const WriterRow> layer_writers();
std::span<const WriterRow> movement_writers();
std::span<const WriterRow> recurrent_writers();
std::vector<std::span<const WriterRow>> all_writers();
Writer find_writer(const OpDef& op);  // nullptr: there is none

}  // namespace kaon::onnx::exporting

// Conversion: makes a Program of a model for inputs of known shapes and dtypes. Every shape is known, so that
// arithmetic on shapes folds to constants.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kaon/interchange/onnx/convert/program.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::convert {

// The names of a graph and of those around it.
struct Scope {
  std::unordered_map<std::string, Value> values;
  const Scope* outer = nullptr;
  const Value* find(const std::string& name) const;
};

// An input of the model: metas of one array, or of the arrays of a sequence; none of an optional without a value.
struct InputForm {
  Value::Kind kind = Value::Kind::tensor;
  std::vector<TensorMeta> arrays;
  std::vector<std::string> strings;  // the program holds for these
  Shape strings_shape;
  friend bool operator==(const InputForm&, const InputForm&) = default;
};

// What conversions of one model have made of its initializers, for the next ones.
using Kept = std::unordered_map<std::string, Symbol>;

class Call;

class Conversion {
 public:
  // `parameters` by the names of initializers, those in `turned` stored transposed. Keeps in `kept` what once() makes.
  Conversion(const format::Model& model, const std::unordered_map<std::string, gluon::Parameter>& parameters,
             const std::unordered_map<std::string, Value>& constants, const std::unordered_set<std::string>& turned,
             Kept& kept);
  // Without `arrays` nothing that depends on values of inputs can be converted: TraceError. Throws ValueError,
  // ShapeError, TypeError naming the node.
  std::unique_ptr<Program> convert(const std::vector<InputForm>& forms, const std::vector<NDArray>* arrays);

  // --- for operators
  // The values of a tensor. Those that depend on inputs are computed now, and the program holds for these values alone.
  // Blocks; throws TraceError where there are no values.
  NDArray read(const Value& value);
  // What `function` makes of the inputs: constants where these are, else results of a step of the program.
  std::vector<Value> host(const std::vector<Value>& inputs, HostFunction function);
  // What `make` makes of these inputs of the call, where they are given; `how` names all else that it depends on. A
  // constant where they are constant, which all programs of the model share where they are initializers.
  Symbol once(const Call& call, const std::vector<int>& inputs, const std::string& how,
              engine::FunctionRef<Symbol()> make);
  // Runs `build`, which converts graphs as parts of an operator of control flow. False where it throws an Error or
  // needs values of tensors, which a part that runs later, or never, does not have: then the program is as it was
  // before.
  bool attempt(engine::FunctionRef<void()> build);
  // The outputs of a graph inside `outer`, whose inputs are these.
  std::vector<Value> convert_graph(const format::Graph& graph, const Scope& outer, const std::vector<Value>& inputs);
  const std::vector<Symbol>& inputs() const { return program_->inputs; }
  const std::vector<Symbol>& parameters() const { return program_->parameter_variables; }
  const Scope& scope() const { return *scope_; }  // around the node that is converted
  int64_t opset(const std::string& domain) const;

 private:
  void convert_nodes(const std::vector<format::Node>& nodes, const std::vector<std::string>& wanted, Scope& scope);
  void convert_node(const format::Node& node, Scope& scope);
  std::vector<Value> call_function(const format::Function& function, const format::Node& node,
                                   std::vector<Value> inputs);
  void add_initializers(const format::Graph& graph, Scope& scope);
  void fold(std::vector<Value>& outputs);
  NDArray compute(const Symbol& value);

  const format::Model& model_;
  const std::unordered_map<std::string, gluon::Parameter>& parameters_;
  const std::unordered_map<std::string, Value>& constants_;
  const std::unordered_set<std::string>& turned_;
  Kept& kept_;
  const std::map<std::string, int64_t>* opsets_;
  const Scope* scope_ = nullptr;
  std::unique_ptr<Program> program_;
  Evaluator values_;
  bool has_values_ = false;
  int depth_ = 0, host_results_ = 0;
};

}  // namespace kaon::onnx::convert

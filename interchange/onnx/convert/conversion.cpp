#include "kaon/interchange/onnx/convert/conversion.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx/convert/call.h"
#include "kaon/interchange/onnx/format/reads.h"
#include "kaon/interchange/onnx/format/structure.h"

namespace kaon::onnx::convert {

using format::Attribute;
using format::describe;
using format::Function;
using format::Graph;
using format::Node;

const Value* Scope::find(const std::string& name) const {
  for (const Scope* s = this; s; s = s->outer) {
    if (const auto at = s->values.find(name); at != s->values.end()) return &at->second;
  }
  return nullptr;
}

namespace {

constexpr int kMaxDepth = 64;  // of functions and graphs inside one another

// The attributes of a function's node, with those that it takes from the call.
std::vector<Attribute> resolved(const std::vector<Attribute>& attributes, const Node& call, const Function& function);

Node resolved(const Node& node, const Node& call, const Function& function) {
  Node n = node;
  n.attributes = resolved(node.attributes, call, function);
  return n;
}

std::vector<Attribute> resolved(const std::vector<Attribute>& attributes, const Node& call, const Function& function) {
  std::vector<Attribute> all;
  for (const Attribute& a : attributes) {
    if (!a.reference.empty()) {
      const Attribute* given = call.find(a.reference);
      for (const Attribute& d : function.defaults) {
        if (!given && d.name == a.reference) given = &d;
      }
      if (!given) continue;  // the operator's own default counts
      all.push_back(*given);
      all.back().name = a.name;
      continue;
    }
    all.push_back(a);
    for (auto& graph : all.back().graphs) {
      auto copy = std::make_shared<Graph>(*graph);
      for (Node& n : copy->nodes) n = resolved(n, call, function);
      graph = copy;
    }
  }
  return all;
}

}  // namespace

Conversion::Conversion(const format::Model& model, const std::unordered_map<std::string, gluon::Parameter>& parameters,
                       const std::unordered_map<std::string, Value>& constants,
                       const std::unordered_set<std::string>& turned, Kept& kept)
    : model_(model),
      parameters_(parameters),
      constants_(constants),
      turned_(turned),
      kept_(kept),
      opsets_(&model.opsets) {}

int64_t Conversion::opset(const std::string& domain) const {
  const auto at = opsets_->find(domain);
  if (at != opsets_->end()) return at->second;
  const auto model = model_.opsets.find(domain);
  return model == model_.opsets.end() ? 1 : model->second;
}

std::unique_ptr<Program> Conversion::convert(const std::vector<InputForm>& forms, const std::vector<NDArray>* arrays) {
  program_ = std::make_unique<Program>();
  has_values_ = arrays != nullptr;
  Scope scope;
  scope_ = &scope;
  size_t next = 0, array = 0;
  for (const auto& info : model_.graph.inputs) {
    if (constants_.contains(info.name) || parameters_.contains(info.name)) continue;  // initialized
    const InputForm& form = forms[next++];
    const auto variable = [&](const std::string& name, const TensorMeta& meta) {
      const Symbol s = Symbol::variable(name, meta.shape, meta.dtype);
      program_->inputs.push_back(s);
      if (arrays) values_.bind(s, (*arrays)[array++]);
      return Value::of(s, info.type == ElementType::undefined ? format::element_type_of(meta.dtype) : info.type);
    };
    Value& value = scope.values[info.name];
    if (form.kind == Value::Kind::strings) value = Value::text(form.strings, form.strings_shape);
    if (form.kind == Value::Kind::tensor) value = variable(info.name, form.arrays[0]);
    if (form.kind != Value::Kind::sequence) continue;
    std::vector<Value> items;
    for (size_t i = 0; i < form.arrays.size(); ++i)
      items.push_back(variable(fmt::format("{}_{}", info.name, i), form.arrays[i]));
    value = Value::sequence(std::move(items), info.type);
  }
  for (const auto& [name, value] : constants_) scope.values[name] = value;
  for (const auto& [name, parameter] : parameters_) {
    const Symbol s = Symbol::variable(parameter.name(), parameter.shape(), parameter.dtype());
    const bool is_turned = turned_.contains(name);
    Value value = Value::of(is_turned ? sym.transpose(s) : s);
    if (is_turned) value.turned = s;
    if (!is_turned) value.known = parameter.array();
    value.is_parameter = true;
    scope.values[name] = value;
    program_->parameters.push_back(parameter);
    program_->parameter_variables.push_back(s);
    values_.bind(s, parameter.array());
  }
  std::vector<std::string> wanted;
  for (const auto& output : model_.graph.outputs) wanted.push_back(output.name);
  convert_nodes(model_.graph.nodes, wanted, scope);
  for (const std::string& name : wanted) {
    const Value* value = scope.find(name);
    if (!value) throw ValueError(fmt::format("[onnx] no node makes the output '{}'", name));
    program_->outputs.push_back(*value);
  }
  program_->finish();
  return std::move(program_);
}

void Conversion::convert_nodes(const std::vector<Node>& nodes, const std::vector<std::string>& wanted, Scope& scope) {
  std::unordered_set<std::string_view> made;
  for (const Node& n : nodes) {
    for (const std::string& name : n.outputs) {
      if (name.empty() || made.insert(name).second) continue;
      throw ValueError(
          fmt::format("[onnx] the value '{}' is made by several nodes, of which one is {}", name, describe(n)));
    }
  }
  // what no output needs is not converted: it may be an operator that is not supported
  std::unordered_set<std::string> needed(wanted.begin(), wanted.end());
  std::vector<bool> is_needed(nodes.size());
  std::vector<std::vector<const std::string*>> last_reads(nodes.size());  // what no later node needs
  for (size_t i = nodes.size(); i-- > 0;) {
    is_needed[i] = std::any_of(nodes[i].outputs.begin(), nodes[i].outputs.end(),
                               [&](const std::string& name) { return !name.empty() && needed.contains(name); });
    if (!is_needed[i]) continue;
    format::for_each_read(nodes[i], [&](const std::string& name) {
      if (needed.insert(name).second) last_reads[i].push_back(&name);
    });
  }
  const Scope* const outer = std::exchange(scope_, &scope);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!is_needed[i]) continue;
    try {
      convert_node(nodes[i], scope);
    } catch (const Error& e) {
      scope_ = outer;
      if (std::string_view(e.what()).find("; in ONNX node ") != std::string_view::npos) throw;
      std::rethrow_exception(e.with_context(fmt::format("; in ONNX node {}", describe(nodes[i]))));
    }
    // constants may be large, as indices of each element are
    for (const std::string* name : last_reads[i]) scope.values.erase(*name);
  }
  scope_ = outer;
}

void Conversion::convert_node(const Node& node, Scope& scope) {
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    const Value* value = scope.find(name);
    if (!value) throw ValueError(fmt::format("[onnx] the input '{}' is made by no node before", name));
    inputs.push_back(*value);
  }
  std::vector<Value> outputs;
  const auto function = std::find_if(model_.functions.begin(), model_.functions.end(), [&](const Function& f) {
    return f.name == node.op_type && f.domain == node.domain && f.overload == node.overload;
  });
  const bool folds = std::all_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.is_constant(); });
  if (function != model_.functions.end()) {
    outputs = call_function(*function, node, std::move(inputs));
  } else {
    const int64_t version = opset(node.domain);
    const Converter convert = find_converter(node.domain, node.op_type, version);
    if (!convert) {
      throw ValueError(fmt::format("[onnx] the operator {}{} of version {} is not supported",
                                   node.domain.empty() ? "" : node.domain + ".", node.op_type, version));
    }
    // node names in Symbols, as in the model
    const NameScope names((node.name.empty() ? node.op_type : node.name) + "_");
    Call call(node, version, *this, std::move(inputs));
    convert(call);
    outputs = std::move(call.outputs());
    if (folds && call.folds()) fold(outputs);
  }
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
    if (!node.outputs[i].empty()) scope.values[node.outputs[i]] = std::move(outputs[i]);
  }
}

void Conversion::fold(std::vector<Value>& outputs) {
  autograd::ModeScope mode(false, false);
  for (Value& v : outputs) {
    if (v.kind == Value::Kind::sequence) fold(v.items);
    if (v.kind != Value::Kind::tensor || v.known.defined()) continue;
    Evaluator evaluate;
    try {
      const std::shared_ptr<const Levels> levels = v.levels;
      v = Value::constant(evaluate(v.symbol), v.type);
      v.levels = levels;
    } catch (const StateError&) {  // a graph inside the node reads inputs
    }
  }
}

std::vector<Value> Conversion::call_function(const Function& function, const Node& node, std::vector<Value> inputs) {
  if (++depth_ > kMaxDepth)
    throw ValueError(fmt::format("[onnx] more than {} functions inside one another", kMaxDepth));
  Scope scope;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    scope.values[function.inputs[i]] = i < inputs.size() ? std::move(inputs[i]) : Value();
  }
  std::vector<Node> nodes;
  for (const Node& n : function.nodes) nodes.push_back(resolved(n, node, function));
  const auto* const opsets = std::exchange(opsets_, &function.opsets);
  const NameScope names((node.name.empty() ? node.op_type : node.name) + "_");
  convert_nodes(nodes, function.outputs, scope);
  opsets_ = opsets;
  --depth_;
  std::vector<Value> outputs;
  for (const std::string& name : function.outputs) {
    const Value* value = scope.find(name);
    outputs.push_back(value ? *value : Value());
  }
  return outputs;
}

bool Conversion::attempt(engine::FunctionRef<void()> build) {
  const size_t steps = program_->steps.size();
  const int depth = depth_;
  const Scope* const scope = scope_;
  const auto* const opsets = opsets_;
  bool is_whole = true;
  try {
    build();
    is_whole = program_->steps.size() == steps;
  } catch (const Error&) {
    is_whole = false;
  }
  depth_ = depth, scope_ = scope, opsets_ = opsets;
  if (!is_whole) program_->steps.resize(steps);
  return is_whole;
}

void Conversion::add_initializers(const Graph& graph, Scope& scope) {
  for (const format::Tensor& t : graph.initializers) {
    scope.values[t.name] =
        t.type == ElementType::string ? Value::text(t.strings, t.shape()) : Value::constant(t.values(), t.type);
  }
  for (const format::SparseTensor& t : graph.sparse_initializers) {
    scope.values[t.values.name] = Value::constant(format::dense(t), t.values.type);
  }
}

std::vector<Value> Conversion::convert_graph(const Graph& graph, const Scope& outer, const std::vector<Value>& inputs) {
  if (++depth_ > kMaxDepth) throw ValueError(fmt::format("[onnx] more than {} graphs inside one another", kMaxDepth));
  if (inputs.size() > graph.inputs.size()) {
    throw ValueError(
        fmt::format("[onnx] the graph '{}' takes {} inputs, got {}", graph.name, graph.inputs.size(), inputs.size()));
  }
  Scope scope;
  scope.outer = &outer;
  add_initializers(graph, scope);
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = inputs[i];
  std::vector<std::string> wanted;
  for (const auto& output : graph.outputs) wanted.push_back(output.name);
  convert_nodes(graph.nodes, wanted, scope);
  --depth_;
  std::vector<Value> outputs;
  for (const std::string& name : wanted) {
    const Value* value = scope.find(name);
    if (!value)
      throw ValueError(fmt::format("[onnx] no node of the graph '{}' makes its output '{}'", graph.name, name));
    outputs.push_back(*value);
  }
  return outputs;
}

Symbol Conversion::once(const Call& call, const std::vector<int>& inputs, const std::string& how,
                        engine::FunctionRef<Symbol()> make) {
  bool is_initial = true;
  std::string key = how;
  for (int i : inputs) {
    key += '\n';
    if (!call.has(i)) continue;
    const Value& value = call.input(i);
    if (!value.is_constant()) return make();
    const std::string& name = call.node().inputs[size_t(i)];
    const auto known = constants_.find(name);
    is_initial =
        is_initial && known != constants_.end() && known->second.symbol.entry().node == value.symbol.entry().node;
    key += name;
  }
  if (const auto at = kept_.find(key); is_initial && at != kept_.end()) return at->second;
  autograd::ModeScope mode(false, false);
  Evaluator evaluate;
  const Symbol made = Symbol::constant(evaluate(make()));
  if (is_initial) kept_.emplace(std::move(key), made);
  return made;
}

NDArray Conversion::compute(const Symbol& value) {
  try {
    return values_(value);
  } catch (const StateError&) {
    if (has_values_) throw;
    throw TraceError(fmt::format(
        "[onnx] the program depends on the values of {}, which a trace does not have: call the block with arrays",
        value.name()));
  }
}

NDArray Conversion::read(const Value& value) {
  if (value.is_constant()) return value.known;
  for (const Step& step : program_->steps) {
    if (!step.function && step.reads[0].entry().node == value.symbol.entry().node &&
        step.reads[0].entry().output == value.symbol.entry().output) {
      return step.expected[0];
    }
  }
  autograd::ModeScope mode(false, false);
  const NDArray values = compute(value.symbol).copy();
  program_->steps.push_back({.reads = {value.symbol}, .expected = {values}, .function = {}, .results = {}});
  return values;
}

std::vector<Value> Conversion::host(const std::vector<Value>& inputs, HostFunction function) {
  const bool known = std::all_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.is_constant(); });
  if (!known && !has_values_) {
    throw TraceError(
        "[onnx] a function on the host is needed, which a trace cannot record: call the block with arrays");
  }
  autograd::ModeScope mode(false, false);
  std::vector<NDArray> arrays;
  Step step;
  for (const Value& v : inputs) {
    step.reads.push_back(v.symbol);
    arrays.push_back(v.is_constant() ? v.known : compute(v.symbol));
  }
  const std::vector<NDArray> made = function(arrays);
  std::vector<Value> results;
  for (const NDArray& array : made) {
    if (known) {
      results.push_back(Value::constant(array));
      continue;
    }
    const Symbol s = Symbol::variable(fmt::format("__host{}", host_results_++), array.shape(), array.dtype());
    values_.bind(s, array);
    step.results.push_back(s);
    results.push_back(Value::of(s));
  }
  if (!known) {
    step.function = std::move(function);
    program_->steps.push_back(std::move(step));
  }
  return results;
}

}  // namespace kaon::onnx::convert

#include "kaon/gluon/symbol_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "kaon/engine/backend.h"
#include "kaon/gluon/block_node.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon {

SymbolBlock::SymbolBlock(const Symbol& outputs, const std::vector<std::string>& inputs)
    : HybridBlock("symbolblock"), program_(outputs), inputs_(inputs) {
  auto all = outputs.list_inputs();
  for (const std::string& name : inputs) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      throw ValueError(fmt::format("[SymbolBlock] the program has no input '{}'; it has: {}", name, fmt::join(all, ", ")));
    }
  }
  auto aux = outputs.list_auxiliary_states();
  std::unordered_map<std::string, SymbolNode*> variables;
  for (SymbolNode* n : topological_order(outputs.entries())) {
    if (n->is_variable()) variables[n->name] = n;
  }
  for (const std::string& name : all) {
    if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) continue;
    const TensorMeta& m = variables[name]->outputs[0];
    Shape shape = m.shape;
    for (int i = 0; i < shape.ndim(); ++i) shape[i] = std::max<int64_t>(shape[i], 0);
    bool is_aux = std::find(aux.begin(), aux.end(), name) != aux.end();
    param(name, shape, {.dtype = m.dtype, .differentiable = !is_aux});
  }
  node_->active = true;
}

SymbolBlock SymbolBlock::imports(const std::filesystem::path& symbol_file, const std::vector<std::string>& inputs,
                                 const std::filesystem::path& param_file, Device device) {
  check_device(device, "imports");
  SymbolBlock block(Symbol::load(symbol_file), inputs);
  if (param_file.empty()) return block;
  NamedArrays arrays = nd_file::load(param_file);
  auto& parameters = block.node_->parameters;
  std::vector<std::string> without_values;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& own = parameters[i];
    auto it = std::find_if(arrays.begin(), arrays.end(), [&](const auto& a) {
      return a.first == own.key || a.first == "arg:" + own.key || a.first == "aux:" + own.key;
    });
    if (it == arrays.end()) {
      if (own.key.ends_with("label")) {
        without_values.push_back(own.key);
        parameters.erase(parameters.begin() + std::ptrdiff_t(i--));
        continue;
      }
      throw ValueError(fmt::format("[imports] parameter '{}' of {} is missing in {}", own.key, symbol_file.string(), param_file.string()));
    }
    ParameterOptions options{.dtype = it->second.dtype(), .differentiable = !own.parameter.is_auxiliary()};
    own.parameter = Parameter(own.key, it->second.shape(), options);
    own.parameter.set_data(it->second);
  }
  if (!without_values.empty()) {
    std::tie(block.program_, block.labels_) = with_direct_labels(block.program_, without_values);
  }
  return block;
}

std::vector<NDArray> SymbolBlock::forward(const std::vector<NDArray>& inputs, std::source_location site) const {
  if (inputs.size() != inputs_.size()) {
    throw ValueError(fmt::format("[SymbolBlock] takes {} inputs ({}), got {}", inputs_.size(), fmt::join(inputs_, ", "), inputs.size()));
  }
  std::vector<NDArray> all = inputs;
  if (!labels_.empty()) {
    Shapes known;
    for (size_t i = 0; i < inputs.size(); ++i) known[inputs_[i]] = inputs[i].shape();
    auto names = program_.list_arguments();
    auto shapes = program_.infer_shape(known).arguments;
    for (const std::string& label : labels_) {
      all.push_back(nd.zeros(shapes[size_t(std::find(names.begin(), names.end(), label) - names.begin())]));
    }
  }
  std::vector<const NDArray*> arrays;
  for (const NDArray& a : all) arrays.push_back(&a);
  auto trace = [&](std::span<const Symbol> data) {
    Symbol s = compose_on({data.begin(), data.end()});
    std::vector<Symbol> outputs;
    for (int i = 0; i < s.num_outputs(); ++i) outputs.push_back(s.output(i));
    return outputs;
  };
  std::vector<NDArray> outputs;
  detail::call_traced(*node_, arrays, trace, site, [&](size_t n) {
    outputs.resize(n);
    return std::span(outputs);
  });
  return outputs;
}

Symbol SymbolBlock::compose_on(const std::vector<Symbol>& inputs) const {
  detail::CallScope scope(*node_, true);
  std::unordered_map<std::string, Symbol> replacements;
  for (size_t i = 0; i < inputs_.size(); ++i) replacements[inputs_[i]] = inputs.at(i);
  for (size_t i = 0; i < labels_.size() && inputs_.size() + i < inputs.size(); ++i) {
    replacements[labels_[i]] = inputs[inputs_.size() + i];
  }
  for (const auto& own : node_->parameters) replacements[own.key] = own.parameter.var();
  return compose(program_, replacements);
}

}  // namespace kaon::gluon

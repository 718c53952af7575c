#include "kaon/gluon/symbol_block.h"

#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <unordered_map>

#include "kaon/engine/device/backend.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon {

using namespace graph;

SymbolBlock::SymbolBlock(const Symbol& outputs, const std::vector<std::string>& inputs,
                         std::span<const Parameter> params)
    : HybridBlock("symbolblock"), program_(outputs), inputs_(inputs) {
  auto all = outputs.list_inputs();
  for (const std::string& name : inputs) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      throw ValueError(
          fmt::format("[SymbolBlock] the program has no input '{}'; it has: {}", name, fmt::join(all, ", ")));
    }
  }
  auto aux = outputs.list_auxiliary_states();
  std::unordered_map<std::string, SymbolNode*> variables;
  for (SymbolNode* n : topological_order(outputs.entries())) {
    if (n->is_variable()) variables[n->name] = n;
  }
  for (const std::string& name : inputs) {
    const SymbolNode& input = *variables[name];
    expected_.push_back(input.text_attrs.contains(detail::fixed_shapes_key) ? std::optional(input.outputs[0])
                                                                            : std::nullopt);
  }
  for (const std::string& name : all) {
    if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) continue;
    const TensorMeta& m = variables[name]->outputs[0];
    Shape shape = m.shape;
    for (int i = 0; i < shape.ndim(); ++i) shape[i] = std::max<int64_t>(shape[i], 0);
    bool is_aux = std::find(aux.begin(), aux.end(), name) != aux.end();
    param(name, shape, {.dtype = m.dtype, .differentiable = !is_aux});
    const auto given = std::find_if(params.begin(), params.end(), [&](const Parameter& p) { return p.name() == name; });
    if (given == params.end()) continue;
    BlockNode::OwnParameter& own = node_->parameters.back();
    own.parameter = *given;
    own.is_shared = true;
  }
  node_->active = true;
}

SymbolBlock SymbolBlock::imports(const std::filesystem::path& symbol_file, const std::vector<std::string>& inputs,
                                 const std::filesystem::path& param_file, Device device, bool allow_missing,
                                 bool ignore_extra) {
  check_device(device, "imports");
  SymbolBlock block(Symbol::load(symbol_file), inputs);
  if (param_file.empty()) return block;
  std::unordered_map<std::string, NDArray> arrays;
  for (auto& [name, array] : nd_file::load(param_file)) {
    if (name.starts_with("arg:") || name.starts_with("aux:")) name.erase(0, 4);
    arrays[name] = array;
  }
  std::vector<BlockNode::OwnParameter> parameters;
  std::vector<std::string> labels;
  for (auto& own : block.node_->parameters) {
    auto it = arrays.find(own.key);
    if (it == arrays.end() && own.key.ends_with("label")) {
      labels.push_back(own.key);
      continue;
    }
    if (it == arrays.end() && !allow_missing) {
      throw ValueError(fmt::format("[imports] parameter '{}' of {} is missing in {}", own.key, symbol_file.string(),
                                   param_file.string()));
    }
    if (it != arrays.end()) {
      ParameterOptions options{.dtype = it->second.dtype(), .differentiable = !own.parameter.is_auxiliary()};
      own.parameter = Parameter(own.key, own.parameter.shape(), options);
      try {
        own.parameter.set_data(it->second);
      } catch (const Error& e) {
        std::rethrow_exception(e.with_context(fmt::format(" in {}", param_file.string())));
      }
      arrays.erase(it);
    }
    parameters.push_back(own);
  }
  if (!arrays.empty() && !ignore_extra) {
    throw ValueError(fmt::format("[imports] {} holds '{}', which is no parameter of {}", param_file.string(),
                                 arrays.begin()->first, symbol_file.string()));
  }
  block.node_->parameters = std::move(parameters);
  if (!labels.empty()) std::tie(block.program_, block.labels_) = with_direct_labels(block.program_, labels);
  return block;
}

void SymbolBlock::check_count(size_t given) const {
  if (given == inputs_.size()) return;
  throw ValueError(
      fmt::format("[SymbolBlock] takes {} inputs ({}), got {}", inputs_.size(), fmt::join(inputs_, ", "), given));
}

void SymbolBlock::expect(const std::vector<TensorMeta>& inputs) {
  check_count(inputs.size());
  expected_.assign(inputs.begin(), inputs.end());
}

void SymbolBlock::check_input(size_t i, const Shape& shape, DType dtype) const {
  if (!expected_[i]) return;
  const TensorMeta& expected = *expected_[i];
  bool fits = shape.ndim() == expected.shape.ndim();
  for (int axis = 0; fits && axis < shape.ndim(); ++axis)
    fits = expected.shape[axis] < 0 || expected.shape[axis] == shape[axis];
  if (!fits) {
    throw ShapeError(fmt::format("[SymbolBlock] {}: the program holds for the shape {} alone, got {}", inputs_[i],
                                 expected.shape.str(), shape.str()));
  }
  if (dtype != expected.dtype) {
    throw TypeError(fmt::format("[SymbolBlock] {}: the program holds for {} alone, got {}", inputs_[i],
                                name_of(expected.dtype), name_of(dtype)));
  }
}

static std::vector<Symbol> outputs_of(const Symbol& all) {
  std::vector<Symbol> outputs;
  for (int i = 0; i < all.num_outputs(); ++i) outputs.push_back(all.output(i));
  return outputs;
}

std::vector<Symbol> SymbolBlock::operator()(const std::vector<Symbol>& inputs) const {
  return outputs_of(compose_on(inputs));
}

std::vector<NDArray> SymbolBlock::forward(const std::vector<NDArray>& inputs, std::source_location site) const {
  check_count(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) check_input(i, inputs[i].shape(), inputs[i].dtype());
  std::vector<NDArray> zeros;
  if (!labels_.empty()) {
    Shapes known;
    for (size_t i = 0; i < inputs.size(); ++i) known[inputs_[i]] = inputs[i].shape();
    auto names = program_.list_arguments();
    auto shapes = program_.infer_shape(known).arguments;
    for (const std::string& label : labels_) {
      zeros.push_back(nd.zeros(shapes[size_t(std::find(names.begin(), names.end(), label) - names.begin())]));
    }
  }
  boost::container::small_vector<const NDArray*, 8> arrays;
  for (const NDArray& a : inputs) arrays.push_back(&a);
  for (const NDArray& a : zeros) arrays.push_back(&a);
  auto trace = [&](std::span<const Symbol> data) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (expected_[i] && expected_[i]->shape.is_known()) (void)data[i].shape();  // the trace is for this one alone
    }
    return outputs_of(compose_all(data));
  };
  std::vector<NDArray> outputs;
  detail::call_traced(*node_, {.arrays = {arrays.data(), arrays.size()}, .form = {}}, trace, site,
                      [&](size_t n, std::span<const size_t>) {
                        outputs.resize(n);
                        return std::span(outputs);
                      });
  return outputs;
}

NDArray SymbolBlock::operator()(const NDArray& x, std::source_location site) const {
  if (program_.num_outputs() != 1) {
    throw ValueError(fmt::format("[SymbolBlock] has {} outputs ({}), and this call gives one: forward({{x}}) gives all",
                                 program_.num_outputs(), fmt::join(program_.list_outputs(), ", ")));
  }
  return forward({x}, site)[0];
}

Symbol SymbolBlock::compose_on(const std::vector<Symbol>& inputs) const {
  check_count(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorMeta& m = inputs[i].entry().node->outputs[size_t(inputs[i].entry().output)];
    if (m.shape.is_known()) check_input(i, m.shape, m.dtype);
  }
  return compose_all(inputs);
}

Symbol SymbolBlock::compose_all(std::span<const Symbol> inputs) const {
  detail::CallScope scope(*node_, true);
  std::unordered_map<std::string, Symbol> replacements;
  for (size_t i = 0; i < inputs_.size(); ++i) replacements[inputs_[i]] = inputs[i];
  for (size_t i = 0; i < labels_.size() && inputs_.size() + i < inputs.size(); ++i) {
    replacements[labels_[i]] = inputs[inputs_.size() + i];
  }
  for (const auto& own : node_->parameters) replacements[own.key] = own.parameter.var();
  return compose(program_, replacements);
}

}  // namespace kaon::gluon

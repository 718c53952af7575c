#include "kaon/interchange/onnx/convert/evaluate.h"

#include <fmt/format.h>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::onnx::convert {

using graph::SymbolNode;

void Evaluator::bind(const Symbol& variable, const NDArray& value) {
  values_[variable.entry().node.get()] = {value};
  keep_.push_back(variable);
}

bool Evaluator::is_bound(const Symbol& variable) const { return values_.contains(variable.entry().node.get()); }

NDArray Evaluator::operator()(const Symbol& value) {
  compute(value, nullptr);
  const SymbolEntry& head = value.entry();
  return values_[head.node.get()][head.output];
}

std::vector<NDArray> Evaluator::finish(std::span<const Symbol> values) {
  Reads left;
  std::vector<const SymbolNode*> stack;
  const auto read = [&](const SymbolNode* node) {
    if (left[node]++ == 0 && !values_.contains(node)) stack.push_back(node);
  };
  for (const Symbol& value : values) read(value.entry().node.get());
  while (!stack.empty()) {
    const SymbolNode* const node = stack.back();
    stack.pop_back();
    for (const SymbolEntry& input : node->inputs) read(input.node.get());
  }
  std::vector<NDArray> results;
  for (const Symbol& value : values) {
    compute(value, &left);
    const SymbolEntry& head = value.entry();
    results.push_back(values_[head.node.get()][head.output]);
    if (--left[head.node.get()] == 0) values_.erase(head.node.get());
  }
  return results;
}

void Evaluator::compute(const Symbol& value, Reads* left) {
  const SymbolEntry& head = value.entry();
  keep_.push_back(value);
  // depth first, without recursion: chains are as long as the net
  std::vector<SymbolNode*> stack{head.node.get()};
  while (!stack.empty()) {
    SymbolNode* const node = stack.back();
    if (values_.contains(node)) {
      stack.pop_back();
      continue;
    }
    if (node->is_variable()) {
      if (!node->constant.defined()) throw StateError(fmt::format("[onnx] the variable {} has no value", node->name));
      values_[node] = {node->constant};
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    for (const SymbolEntry& input : node->inputs) {
      if (!values_.contains(input.node.get())) stack.push_back(input.node.get());
    }
    if (stack.size() > before) continue;
    std::vector<const NDArray*> inputs;
    for (const SymbolEntry& input : node->inputs) inputs.push_back(&values_[input.node.get()][input.output]);
    std::vector<NDArray> outputs(size_t(node->visible_outputs()));
    NDArray::apply(*node->op, node->attrs.get(), inputs, outputs, std::source_location::current(), node->name);
    values_[node] = std::move(outputs);
    stack.pop_back();
    if (!left) continue;
    for (const SymbolEntry& input : node->inputs) {
      if (--(*left)[input.node.get()] == 0) values_.erase(input.node.get());
    }
  }
}

}  // namespace kaon::onnx::convert

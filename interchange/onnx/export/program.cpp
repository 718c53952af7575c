#include "kaon/interchange/onnx/export/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/convert/evaluate.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

using graph::SymbolNode;

namespace {

// A graph as Symbols, which writers read; `variables` become its inputs.
Symbol as_symbol(const graph::Graph& graph, std::vector<engine::IntrusivePtr<SymbolNode>>& variables) {
  std::vector<engine::IntrusivePtr<SymbolNode>> nodes;
  for (const graph::Node& n : graph.nodes) {
    engine::IntrusivePtr<SymbolNode> made = graph::make_node(n.op, n.name);
    made->attrs = n.attrs;
    made->outputs = n.outputs;
    made->constant = n.constant;
    for (graph::ValueId v : n.inputs) made->inputs.push_back({nodes[v.node], v.output});
    nodes.push_back(std::move(made));
  }
  for (uint32_t i : graph.inputs) variables.push_back(nodes[i]);
  std::vector<SymbolEntry> entries;
  std::vector<Symbol> outputs;
  for (graph::ValueId v : graph.outputs) outputs.push_back(Symbol(SymbolEntry{nodes[v.node], v.output}));
  return Symbol::group(outputs);
}

bool is_random(const SymbolNode& node) {
  const OpTraits& traits = node.op->traits_of(node.attrs.get());
  return traits.random && !traits.mode_dependent;
}

// Whether all results have a dimension of size 0.
bool is_empty(const SymbolNode& node) {
  const std::span results = std::span(node.outputs).first(size_t(node.visible_outputs()));
  return !results.empty() && std::ranges::all_of(results, [](const TensorMeta& m) { return m.shape.size() == 0; });
}

}  // namespace

std::vector<std::string> write_graph(const graph::Graph& graph, Builder& builder,
                                     const std::vector<std::string>& inputs) {
  std::vector<engine::IntrusivePtr<SymbolNode>> variables;
  const Symbol program = as_symbol(graph, variables);
  ValueNames names;
  for (size_t i = 0; i < variables.size(); ++i) names[variables[i].get()] = {inputs[i]};
  return write_program(program, builder, std::move(names));
}

std::vector<std::string> write_parts(const SymbolNode& node, Builder& builder, std::vector<std::string> inputs) {
  graph::Graph graph;
  std::vector<TensorMeta> metas;
  graph::Node whole;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    metas.push_back(node.inputs[i].node->outputs[node.inputs[i].output]);
    graph::Node input;
    input.name = fmt::format("{}_in{}", node.name, i);
    input.outputs = {metas.back()};
    whole.inputs.push_back(graph.add(std::move(input)));
    graph.inputs.push_back(uint32_t(i));
  }
  whole.op = node.op;
  whole.attrs = node.attrs;
  whole.name = node.name;
  whole.outputs.resize(node.outputs.size());
  const graph::ValueId at = graph.add(std::move(whole));
  for (uint32_t i = 0; i < node.outputs.size(); ++i) graph.outputs.push_back({at.node, i});
  graph::infer_graph(graph, metas);
  return write_graph(graph, builder, inputs);
}

std::vector<std::string> write_node(const SymbolNode& node, Builder& builder, std::vector<std::string> inputs) {
  if (const Writer write = find_writer(*node.op)) {
    Emit emit(node, builder, std::move(inputs));
    write(emit);
    return emit.outputs();
  }
  if (node.op->compose) return write_parts(node, builder, std::move(inputs));
  builder.fail(fmt::format("the operator {} is not written: {}", node.op->name(), reason_of(*node.op)));
}

std::vector<std::string> write_program(const Symbol& program, Builder& builder, ValueNames names,
                                       const std::unordered_map<std::string, NDArray>& values) {
  std::unordered_map<const SymbolNode*, bool> fixed;
  convert::Evaluator evaluate;
  for (SymbolNode* const node : graph::topological_order(program.entries())) {
    bool& is_fixed = fixed[node];
    is_fixed = node->is_variable() ? node->constant.defined()
                                   : !is_random(*node) && std::ranges::all_of(node->inputs, [&](const SymbolEntry& i) {
                                       return fixed.at(i.node.get());
                                     });
    if (names.contains(node)) continue;
    if (node->is_variable()) {
      const auto value = values.find(node->name);
      if (!node->constant.defined() && value == values.end()) {
        throw ValueError(fmt::format("[onnx] the variable {} is neither an input nor has it values", node->name));
      }
      names[node] = {builder.initializer(node->constant.defined() ? node->constant : value->second, node->name)};
      continue;
    }
    // Such as a range: its values. Apart, what is made of it is written: there it may depend on sizes.
    const bool is_folded =
        is_fixed && (node->inputs.empty() || !builder.has_constants_apart() || find_writer(*node->op) == nullptr);
    if (is_folded) {
      for (int i = 0; i < node->visible_outputs(); ++i) {
        names[node].push_back(builder.initializer(
            evaluate(Symbol(SymbolEntry{engine::IntrusivePtr<SymbolNode>(node), uint32_t(i)})), node->output_name(i)));
      }
      continue;
    }
    if (is_empty(*node)) {  // no elements follow from none
      for (int i = 0; i < node->visible_outputs(); ++i) {
        const TensorMeta& meta = node->outputs[size_t(i)];
        names[node].push_back(builder.initializer(nd.zeros(meta.shape, {.dtype = meta.dtype}), node->output_name(i)));
      }
      continue;
    }
    std::vector<std::string> read;
    for (const SymbolEntry& input : node->inputs) read.push_back(names.at(input.node.get()).at(input.output));
    const Builder::Scope scope(builder, node->name, node->op->name());
    names[node] = write_node(*node, builder, std::move(read));
    for (size_t i = 0; i < names[node].size(); ++i) builder.set_dtype(names[node][i], node->outputs[i].dtype);
  }
  std::vector<std::string> results;
  for (const SymbolEntry& e : program.entries()) results.push_back(names.at(e.node.get()).at(e.output));
  return results;
}

}  // namespace kaon::onnx::exporting

#include "kaon/mxnet/program/node_run.h"

#include <fmt/format.h>

#include <unordered_map>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/table/boolean_mask.h"

namespace kaon::mxnet {

namespace {

// A loop has no call of its own: it runs as a graph of one node.
void run_loop(const SymbolNode& node, std::span<const NDArray* const> inputs, std::span<NDArray> results) {
  NodePtr alone = graph::make_node(node.op, node.name);
  alone->attrs = node.attrs;
  alone->outputs.resize(node.outputs.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.push_back(fmt::format("input{}", i));
    alone->inputs.push_back(Symbol::variable(names.back()).entry());
  }
  std::vector<SymbolEntry> heads;
  for (uint32_t i = 0; i < results.size(); ++i) heads.push_back({alone, i});
  graph::CachedGraph(Symbol(std::move(heads)), names, {}, node.name).call(inputs, results, no_site);
}

void run(const SymbolNode& node, std::span<const NDArray* const> inputs, std::span<NDArray> results) {
  try {
    if (graph::is_control_flow(*node.op)) return run_loop(node, inputs, results);
    if (node.op == &BooleanMask::def) {
      results[0] = static_cast<const BooleanMask*>(node.attrs.get())->call(*inputs[0], *inputs[1]);
      return;
    }
    if (graph::wants_equal_shapes(node)) {
      std::vector<const TensorMeta*> metas;
      for (const NDArray* a : inputs) metas.push_back(&a->node());
      graph::expect_equal_shapes(node.op_name, metas);
    }
    NDArray::apply(*node.op, node.attrs.get(), inputs, results, no_site, node.name);
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(fmt::format("; in node {}", node.name)));
  }
}

}  // namespace

void run_nodes(const Symbol& program, std::span<const std::string> names, std::span<const NDArray* const> inputs,
               std::span<NDArray> outputs, const NodeMonitor& monitor) {
  std::unordered_map<std::string_view, const NDArray*> given;
  for (size_t i = 0; i < names.size(); ++i) given[names[i]] = inputs[i];
  std::unordered_map<const SymbolNode*, std::vector<NDArray>> values;
  for (const SymbolNode* n : graph::creation_order(program.entries())) {
    std::vector<NDArray>& results = values[n];
    if (n->is_variable()) {
      results = {n->constant.defined() ? n->constant : *given.at(n->name)};
      continue;
    }
    std::vector<NDArray> in;
    for (const SymbolEntry& e : n->inputs) in.push_back(values.at(e.node.get())[e.output]);
    if (monitor.before) monitor.before(*n, in);
    std::vector<const NDArray*> pointers;
    for (const NDArray& a : in) pointers.push_back(&a);
    results.resize(n->outputs.size());
    run(*n, pointers, results);
    if (monitor.after) monitor.after(*n, results);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SymbolEntry& e = program.entries()[i];
    outputs[i] = values.at(e.node.get())[e.output];
  }
}

}  // namespace kaon::mxnet

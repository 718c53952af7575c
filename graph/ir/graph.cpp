#include "kaon/graph/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/ir/graph_tracer.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {

Graph Graph::from_symbol(const Symbol& symbol, const std::vector<std::string>& input_order) {
  Graph g;
  std::unordered_map<const SymbolNode*, uint32_t> number;
  // As the program was written: random operators draw, and gradients are summed, in the order of an imperative run.
  auto order = creation_order(symbol.entries());
  // Inputs first, so that their numbers do not depend on where they are used.
  std::unordered_map<std::string_view, uint32_t> input_number;
  for (const std::string& name : input_order) {
    Node n;
    n.name = name;
    n.outputs.resize(1);
    g.inputs.push_back(g.add(std::move(n)).node);
    input_number.emplace(name, g.inputs.back());
  }
  for (SymbolNode* s : order) {
    if (s->is_variable() && !s->constant.defined()) {
      auto it = input_number.find(s->name);
      if (it == input_number.end())
        throw ValueError(fmt::format("[graph] variable '{}' is not among the inputs", s->name));
      number[s] = it->second;
      g.nodes[it->second].outputs = s->outputs;
      continue;
    }
    Node n;
    n.op = s->op;
    n.attrs = s->attrs;
    n.name = s->name;
    n.constant = s->constant;
    n.outputs = s->outputs;
    n.demand = s->demand;
    n.is_detached = s->is_detached;
    n.equal_shapes = wants_equal_shapes(*s);
    for (const SymbolEntry& e : s->inputs) n.inputs.push_back({number.at(e.node.get()), e.output});
    for (uint32_t k = 0; s->op && k < n.outputs.size(); ++k) {
      n.provenance.push_back({.output = k, .node = uint32_t(g.nodes.size()), .result = k});
    }
    number[s] = g.add(std::move(n)).node;
  }
  for (const SymbolEntry& e : symbol.entries()) g.outputs.push_back({number.at(e.node.get()), e.output});
  g.num_forward_outputs = uint32_t(g.outputs.size());
  return g;
}

namespace {

void infer_shapes(Graph& graph, Node& n) {
  std::vector<TensorMeta> out(n.outputs.size());
  std::vector<TensorMeta*> in;
  for (ValueId v : n.inputs) in.push_back(&graph.nodes[v.node].outputs[v.output]);
  InferContext context(n.op->name().data(), n.op->traits, in, out);
  try {
    if (n.equal_shapes) expect_equal_shapes("elemwise" + std::string(n.op->name().substr(n.op->name().find('_'))), in);
    n.op->infer(n.attrs.get(), context);
  } catch (const Error& e) {
    if (n.demand) throw ShapeError(fmt::format("{}: {}; in node {}", *n.demand, e.what(), n.name));
    std::rethrow_exception(e.with_context(fmt::format("; in node {}", n.name)));
  }
  n.outputs = std::move(out);
}

// Appends what the node is made of to `graph`, in which its inputs are; returns its outputs there.
std::vector<ValueId> compose(Graph& graph, const Node& n) {
  GraphTracer tracer(graph, n.phase);
  tracer.name = n.name + "_";
  std::vector<NDArray> inputs;
  for (ValueId v : n.inputs) inputs.push_back(tracer.array(v));
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  std::vector<NDArray> results(n.outputs.size());
  {
    GraphTracer::Scope scope(tracer);
    NDArray::apply(*n.op, n.attrs.get(), pointers, results, std::source_location::current(), {});
  }
  std::vector<ValueId> values;
  for (const NDArray& a : results) values.push_back(tracer.value(a));
  return values;
}

}  // namespace

void infer_graph(Graph& graph, std::span<const TensorMeta> inputs) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) graph.nodes[graph.inputs[i]].outputs[0] = inputs[i];
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op && n.op->compose; })) {
    for (Node& n : graph.nodes) {
      if (n.op) infer_shapes(graph, n);
    }
    return;
  }
  Graph made;
  std::vector<std::vector<ValueId>> now;  // by node of `graph` and output
  const auto in_made = [&](ValueId v) { return now[v.node][v.output]; };
  for (Node& n : graph.nodes) {
    for (ValueId& v : n.inputs) v = in_made(v);
    if (n.op) infer_shapes(made, n);
    if (n.op && n.op->compose) {
      now.push_back(compose(made, n));
      continue;
    }
    const uint32_t at = made.add(std::move(n)).node;
    now.emplace_back();
    for (uint32_t k = 0; k < made.nodes[at].outputs.size(); ++k) now.back().push_back({at, k});
  }
  for (uint32_t i : graph.inputs) made.inputs.push_back(now[i][0].node);
  for (ValueId v : graph.outputs) made.outputs.push_back(in_made(v));
  made.num_forward_outputs = graph.num_forward_outputs;
  for (uint32_t i = 0; i < made.nodes.size(); ++i) {
    Node& n = made.nodes[i];
    n.provenance.clear();
    for (uint32_t k = 0; n.op && k < n.outputs.size(); ++k) {
      n.provenance.push_back({.output = k, .node = i, .result = k});
    }
  }
  graph = std::move(made);
}

void number_draws(Graph& graph, bool training) {
  uint64_t next = 0;
  for (Node& n : graph.nodes) {
    if (!n.op || !draws_numbers(*n.op, n.attrs.get(), training)) continue;
    n.random_offset = next;
    next += random_draws(n.outputs[0].shape);
  }
}

std::vector<std::vector<uint32_t>> count_uses(const Graph& graph) {
  std::vector<std::vector<uint32_t>> uses;
  for (const Node& n : graph.nodes) uses.emplace_back(n.outputs.size(), 0);
  for (const Node& n : graph.nodes) {
    for (ValueId v : n.inputs) ++uses[v.node][v.output];
  }
  for (ValueId v : graph.outputs) ++uses[v.node][v.output];
  return uses;
}

namespace {
// " {kernel=(3, 3), num_filter=8}": the attributes other than the defaults.
std::string attributes_of(const Node& n) {
  std::string text;
  if (!n.op) return text;
  n.op->write(n.attrs.get(), [&](std::string_view name, const std::string& value, bool is_default) {
    if (!is_default) text += fmt::format("{}{}={}", text.empty() ? " {" : ", ", name, value);
  });
  return text.empty() ? text : text + "}";
}
}  // namespace

std::string Graph::str() const {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = nodes[i];
    text += fmt::format("%{} = {}", i, n.op ? n.op->name() : n.constant.defined() ? "constant" : "input");
    text += "(";
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      text += fmt::format("{}%{}{}", k ? ", " : "", n.inputs[k].node,
                          n.inputs[k].output ? fmt::format(".{}", n.inputs[k].output) : "");
    }
    text += fmt::format("){}", attributes_of(n));
    for (const TensorMeta& m : n.outputs) text += fmt::format(" {} {}", name_of(m.dtype), m.shape.str());
    if (layout({uint32_t(i), 0}) == Layout::channels_last) text += " nhwc";
    if (layout({uint32_t(i), 0}) == Layout::blocked16) text += " nChw16c";
    text += fmt::format("  {}{}\n", n.name,
                        n.is_rematerialized          ? " [rematerialized]"
                        : n.phase == Phase::backward ? " [backward]"
                                                     : "");
  }
  for (ValueId v : outputs) text += fmt::format("return %{}.{}\n", v.node, v.output);
  return text;
}

void Graph::validate() const {
  auto check = [&](ValueId v, size_t limit, const std::string& who) {
    if (v.node >= limit || v.output >= nodes[v.node].outputs.size()) {
      throw Error(fmt::format("[graph] {} refers to %{}.{}, which is not before it", who, v.node, v.output));
    }
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId v : nodes[i].inputs) check(v, i, fmt::format("node %{} ({})", i, nodes[i].name));
  }
  for (ValueId v : outputs) check(v, nodes.size(), "an output");
}

}  // namespace kaon::graph

// Nodes with "subgraphs" for symbol files.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include <algorithm>
#include <unordered_set>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/graph/files/fused_layer_file.h"
#include "kaon/ops/elementwise/elementwise.h"

namespace kaon::graph {
namespace {

IntrusivePtr<SymbolNode> new_node(const OpDef* op, std::string name, size_t outputs) {
  IntrusivePtr<SymbolNode> node(new SymbolNode);
  node->op = op;
  node->name = std::move(name);
  node->op_name = op ? op->name() : "null";
  node->outputs.resize(outputs);
  return node;
}

// The graph as a symbol. MXNet's subgraphs return nothing that they are given, and no value twice.
Subgraph symbol_of(const Graph& g, std::span<const ValueId> results) {
  std::vector<IntrusivePtr<SymbolNode>> made;
  for (const Node& n : g.nodes) {
    auto node = new_node(n.op, n.name, n.outputs.size());
    node->attrs = n.attrs;
    for (ValueId v : n.inputs) node->inputs.push_back({made[v.node], v.output});
    made.push_back(std::move(node));
  }
  Subgraph sub;
  for (ValueId v : results) {
    SymbolEntry head{made[v.node], v.output};
    const bool again = std::any_of(sub.heads.begin(), sub.heads.end(), [&](const SymbolEntry& e) {
      return e.node == head.node && e.output == head.output;
    });
    if (again || head.node->is_variable()) {
      auto copy = new_node(&op::Copy::def, fmt::format("result{}", sub.heads.size()), 1);
      copy->attrs = Attributes(op::Copy::def);
      copy->inputs = {head};
      head = {copy, 0};
    }
    sub.heads.push_back(std::move(head));
  }
  std::unordered_map<const SymbolNode*, size_t> value;
  for (size_t i = 0; i < g.inputs.size(); ++i) value[made[g.inputs[i]].get()] = i;
  WrittenLoops inner;
  for (const SymbolNode* n : written_order(sub.heads, inner)) {
    if (n->is_variable()) sub.values.push_back(value.at(n));
  }
  return sub;
}

std::vector<Subgraph> subgraphs_of(const ControlFlow& program) {
  const std::vector<Graph>& g = program.graphs;
  if (program.kind == ControlKind::foreach) return {symbol_of(g[0], g[0].outputs)};
  if (program.kind == ControlKind::while_loop) return {symbol_of(g[1], g[1].outputs), symbol_of(g[0], g[0].outputs)};
  const ValueId predicate{g[0].inputs[0], 0};
  return {symbol_of(g[0], std::span(&predicate, 1)), symbol_of(g[0], g[0].outputs), symbol_of(g[1], g[1].outputs)};
}

std::string list_text(const std::vector<size_t>& places) { return fmt::format("[{}]", fmt::join(places, ", ")); }

size_t place_of(const std::vector<size_t>& list, size_t value) {
  return size_t(std::find(list.begin(), list.end(), value) - list.begin());
}

}  // namespace

WrittenControlFlow write_control_flow(const SymbolNode& node) {
  const ControlFlow& program = program_of(*node.op, node.attrs.get());
  WrittenControlFlow out;
  out.subgraphs = node.subgraphs ? *node.subgraphs : subgraphs_of(program);
  const auto& subs = out.subgraphs;
  // The sources of those variables of the body that are values [from, from + count) of the node.
  auto variables = [&](const Subgraph& body, int from, int count) {
    std::vector<size_t> list;
    for (size_t v = size_t(from); v < size_t(from + count); ++v) {
      list.push_back(place_of(body.values, v));
      if (list.back() < body.values.size()) continue;
      throw ValueError(fmt::format("[tojson] node '{}' ({}): its body does not use '{}', which MXNet cannot express",
                                   node.name, node.op->name(),
                                   node.inputs[v].node->output_name(int(node.inputs[v].output))));
    }
    return list_text(list);
  };
  if (program.kind == ControlKind::foreach) {
    for (size_t v = 0; v < size_t(program.num_values()); ++v) out.order.push_back(v);
    out.attrs["in_data_locs"] = variables(subs[0], 0, program.num_data);
    out.attrs["in_state_locs"] = variables(subs[0], program.num_data, program.num_states);
    out.attrs["remain_locs"] = variables(subs[0], program.num_data + program.num_states, program.num_captured);
  } else {
    // In the order in which the subgraphs use them.
    for (const Subgraph& s : subs) {
      for (size_t v : s.values) {
        if (place_of(out.order, v) == out.order.size()) out.order.push_back(v);
      }
    }
    auto inputs = [&](const Subgraph& s) {
      std::vector<size_t> list;
      for (size_t v : s.values) list.push_back(place_of(out.order, v));
      return list_text(list);
    };
    out.attrs["cond_input_locs"] = inputs(subs[0]);
    if (program.kind == ControlKind::while_loop) {
      out.attrs["func_input_locs"] = inputs(subs[1]);
      out.attrs["func_var_locs"] = variables(subs[1], 0, program.num_states);
      out.attrs["max_iterations"] = std::to_string(program.max_iterations);
    } else {
      out.attrs["then_input_locs"] = inputs(subs[1]);
      out.attrs["else_input_locs"] = inputs(subs[2]);
    }
  }
  if (program.is_loop()) out.attrs["num_out_data"] = std::to_string(program.num_outputs);
  out.attrs["num_outputs"] = std::to_string(program.num_results());
  out.attrs["num_args"] = std::to_string(out.order.size() + subs.size());
  return out;
}

std::vector<SymbolNode*> written_order(const std::vector<SymbolEntry>& heads, WrittenLoops& loops) {
  std::vector<SymbolNode*> order;
  std::unordered_set<SymbolNode*> seen;
  struct Open {
    SymbolNode* node;
    const WrittenControlFlow* loop;
    size_t next = 0;
  };
  std::vector<Open> stack;
  auto open = [&](SymbolNode* n) {
    if (!seen.insert(n).second) return;
    const WrittenControlFlow* loop = nullptr;
    const bool is_loop = n->op && is_control_flow(*n->op);
    if (is_loop || (n->op && is_fused_layer(*n->op))) {
      loop = &loops.emplace(n, is_loop ? write_control_flow(*n) : write_fused_layer(*n)).first->second;
    }
    stack.push_back({n, loop});
  };
  for (const SymbolEntry& h : heads) {
    open(h.node.get());
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.next < (top.loop ? top.loop->order.size() : top.node->inputs.size())) {
        const size_t k = top.next++;
        open(top.node->inputs[top.loop ? top.loop->order[k] : k].node.get());
      } else {
        order.push_back(top.node);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace kaon::graph

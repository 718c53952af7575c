// Symbols made of parts of others: outputs, internals, children, inputs, copies; and what a symbol consists of, by
// name.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/node/copy_graph.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// The nodes that programs know of: not the keys of loops' random numbers.
std::vector<SymbolNode*> known_nodes(const Symbol& symbol) {
  std::vector<SymbolNode*> order = graph::topological_order(symbol.entries());
  std::erase_if(order, [](const SymbolNode* n) { return n->op && !find_operator(n->op_name) && n->inputs.empty(); });
  return order;
}

// A cast of mixed precision passes its input on.
const SymbolEntry* behind_cast(const SymbolEntry& e) {
  const SymbolNode& n = *e.node;
  if (n.op_name == "amp_cast" && n.inputs.size() == 1) return &n.inputs[0];
  if (n.op_name == "amp_multicast" && e.output < n.inputs.size()) return &n.inputs[e.output];
  return nullptr;
}

void return_texts(std::vector<std::string> texts, uint32_t* size, const char*** out) {
  returned().texts.set(std::move(texts));
  *size = returned().texts.size();
  *out = returned().texts.data();
}

void return_symbols(const std::vector<Symbol>& symbols, SymbolHandle** out, int* size) {
  std::vector<std::unique_ptr<SymbolObject>> made;
  for (const Symbol& s : symbols) made.push_back(std::make_unique<SymbolObject>(s));
  std::vector<void*>& handles = returned().handles;
  handles.clear();
  for (auto& m : made) handles.push_back(m.release());
  *size = int(handles.size());
  handles.push_back(nullptr);  // so that an empty list has an address too
  *out = handles.data();
}

// What enters the part of the graph that is marked with the name of its first output's subgraph, which becomes a
// variable there.
std::vector<Symbol> cut(const Symbol& symbol) {
  const std::string key = "__subgraph_name__";
  std::vector<Symbol> entering;
  if (!symbol.defined()) return entering;
  const auto mark = symbol.entries()[0].node->text_attrs.find(key);
  if (mark == symbol.entries()[0].node->text_attrs.end()) return entering;
  const std::string name = mark->second;
  const auto is_inside = [&](const SymbolNode& n) {
    const auto it = n.text_attrs.find(key);
    return it != n.text_attrs.end() && it->second == name;
  };
  std::unordered_map<const SymbolNode*, std::unordered_map<uint32_t, SymbolEntry>> variables;
  std::vector<NodePtr> order;
  for (SymbolNode* n : graph::topological_order(symbol.entries())) order.emplace_back(n);
  for (const NodePtr& n : order) {
    if (!is_inside(*n)) continue;
    for (SymbolEntry& e : n->inputs) {
      if (is_inside(*e.node)) continue;
      SymbolEntry& variable = variables[e.node.get()][e.output];
      if (!variable.node) {
        variable = Symbol::variable(output_name(*e.node, int(e.output))).entry();
        entering.emplace_back(e);
      }
      e = SymbolEntry(variable);
    }
  }
  return entering;
}

}  // namespace

int MXSymbolCopy(SymbolHandle symbol, SymbolHandle* out) {
  return guard([&] { *out = new SymbolObject(copy_graph(symbol_of(symbol).symbol)); });
}

int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle) {
  return guard([&] {
    const Symbol copy = copy_graph(symbol_of(sym_handle).symbol);
    for (SymbolNode* n : graph::creation_order(copy.entries())) {  // one that is an output stays
      for (SymbolEntry& e : n->inputs) {
        while (const SymbolEntry* input = behind_cast(e)) e = SymbolEntry(*input);
      }
    }
    *ret_sym_handle = new SymbolObject(copy);
  });
}

int MXSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count) {
  return guard([&] { *output_count = uint32_t(symbol_of(symbol).symbol.num_outputs()); });
}

int MXSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out) {
  return guard([&] {
    const Symbol& s = symbol_of(symbol).symbol;
    if (index >= uint32_t(s.num_outputs())) {
      throw IndexError(fmt::format("[GetOutput] output {} does not exist: there are {}", index, s.num_outputs()));
    }
    *out = new SymbolObject(s.output(int(index)));
  });
}

int MXSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out) {
  return guard([&] {
    std::vector<SymbolEntry> all;
    for (SymbolNode* n : known_nodes(symbol_of(symbol).symbol)) {
      for (int i = 0; i < visible_outputs(*n); ++i) all.push_back({NodePtr(n), uint32_t(i)});
    }
    *out = new SymbolObject(Symbol(std::move(all)));
  });
}

int MXSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out) {
  return guard([&] {
    std::vector<SymbolEntry> children;
    std::unordered_set<const SymbolNode*> seen;
    for (const SymbolEntry& e : symbol_of(symbol).symbol.entries()) {
      if (!seen.insert(e.node.get()).second) continue;
      children.insert(children.end(), e.node->inputs.begin(), e.node->inputs.end());
    }
    *out = new SymbolObject(Symbol(std::move(children)));
  });
}

int MXSymbolGetInputSymbols(SymbolHandle sym, SymbolHandle** inputs, int* input_size) {
  return guard([&] {
    std::vector<Symbol> variables;
    for (SymbolNode* n : known_nodes(symbol_of(sym).symbol)) {
      if (!is_operator(*n)) variables.emplace_back(SymbolEntry{NodePtr(n), 0});
    }
    return_symbols(variables, inputs, input_size);
  });
}

int MXSymbolCutSubgraph(SymbolHandle sym, SymbolHandle** inputs, int* input_size) {
  return guard([&] { return_symbols(cut(symbol_of(sym).symbol), inputs, input_size); });
}

int MXSymbolListOutputs(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array) {
  return guard([&] {
    std::vector<std::string> names;
    for (const SymbolEntry& e : symbol_of(symbol).symbol.entries()) {
      names.push_back(output_name(*e.node, int(e.output)));
    }
    return_texts(std::move(names), out_size, out_str_array);
  });
}

int NNSymbolListInputNames(SymbolHandle symbol, int option, uint32_t* out_size, const char*** out_str_array) {
  return guard([&] {
    const Symbol& s = symbol_of(symbol).symbol;
    if (option < 0 || option > 2) {
      throw ValueError(fmt::format("[ListInputNames] expected 0 (all), 1 (arguments) or 2 (states), got {}", option));
    }
    const bool has_inputs = s.defined() && (s.entries()[0].node->op || !is_operator(*s.entries()[0].node));
    std::vector<std::string> names;
    if (has_inputs)
      names = option == 0 ? s.list_inputs() : option == 1 ? s.list_arguments() : s.list_auxiliary_states();
    return_texts(std::move(names), out_size, out_str_array);
  });
}

int MXSymbolListArguments(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array) {
  return NNSymbolListInputNames(symbol, 1, out_size, out_str_array);
}

int MXSymbolListAuxiliaryStates(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array) {
  return NNSymbolListInputNames(symbol, 2, out_size, out_str_array);
}

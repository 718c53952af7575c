// Symbols made anew: operators without inputs, variables, groups.
#include <fmt/format.h>

#include <memory>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/mxnet/attributes/attributes.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/symbol/node_attributes.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// A loop or a condition has its program when it is composed; until then the program says how many outputs it has.
int outputs_of_loop(const SymbolNode& node) {
  const auto it = node.text_attrs.find("num_outputs");
  int64_t count = 0;
  if (it == node.text_attrs.end() || !ops::from_text(it->second, count) || count < 1 || count > 65536) {
    throw ValueError(fmt::format("[{}] expected a number of outputs as the attribute num_outputs, got '{}'",
                                 node.op_name, it == node.text_attrs.end() ? "" : it->second));
  }
  return int(count);
}

NodePtr new_operator(const OperatorInfo& info, std::map<std::string, std::string> texts) {
  NodePtr node = graph::make_node(nullptr, "");
  node->op_name = info.name;
  node->text_attrs = std::move(texts);
  if (graph::find_control_flow(info.name)) {
    node->outputs.resize(size_t(outputs_of_loop(*node)));
    return node;
  }
  if (info.name == program_op) {
    node->outputs.resize(program_of(*node).entries().size());
    return node;
  }
  read_again(*node);
  const OpDef& def = def_of(info);
  const void* attrs = node->attrs.get();
  if (def.num_outputs(attrs) == 0) {
    throw ValueError(fmt::format("[{}] changes arrays in place, and cannot be part of a symbol", info.name));
  }
  node->outputs.resize(size_t(def.num_outputs(attrs)));
  node->op = &def;
  const int visible = def.visible_outputs(attrs);
  if (def.num_inputs(attrs) != 0) node->op = nullptr;  // until it has them
  // hidden outputs stay the node's own: what is seen of it before composition is what is seen after
  node->outputs.resize(size_t(node->op ? def.num_outputs(attrs) : visible));
  return node;
}

}  // namespace

int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator, uint32_t num_param, const char** keys, const char** vals,
                               SymbolHandle* out) {
  return guard([&] {
    if (!creator) throw ValueError("the handle of an operator is null");
    std::map<std::string, std::string> texts;
    for (uint32_t i = 0; i < num_param; ++i) texts.emplace(stored_key(keys[i], vals[i]), vals[i]);
    const NodePtr node = new_operator(*static_cast<const OperatorInfo*>(creator), std::move(texts));
    *out = new SymbolObject(symbol_of_node(node));
  });
}

int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle) {
  return guard([&] {
    const Symbol& from = symbol_of(sym_handle).symbol;
    if (!from.defined()) throw ValueError("the symbol has no outputs");
    const SymbolNode& node = *from.entries()[0].node;
    for (const SymbolEntry& e : from.entries()) {
      if (e.node.get() != &node) throw ValueError("expected the outputs of one node, got a group");
    }
    const OperatorInfo* info = info_of(node);
    if (!info) throw ValueError(fmt::format("'{}' is not an operator of MXNet's", node.name));
    *ret_sym_handle = new SymbolObject(symbol_of_node(new_operator(*info, node.text_attrs)));
  });
}

int MXSymbolCreateVariable(const char* name, SymbolHandle* out) {
  return guard([&] { *out = new SymbolObject(Symbol::variable(name)); });
}

int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols, SymbolHandle* out) {
  return guard([&] {
    std::vector<Symbol> parts;
    for (uint32_t i = 0; i < num_symbols; ++i) parts.push_back(symbol_of(symbols[i]).symbol);
    *out = new SymbolObject(Symbol::group(parts));
  });
}

int MXShallowCopySymbol(SymbolHandle src, SymbolHandle* out) {
  return guard([&] { *out = new SymbolObject(symbol_of(src).symbol); });
}

int NNSymbolFree(SymbolHandle symbol) {
  return guard([&] { delete static_cast<SymbolObject*>(symbol); });
}

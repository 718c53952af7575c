#include "kaon/mxnet/symbol/symbol_object.h"

namespace kaon::mxnet {

SymbolObject& symbol_of(void* handle) {
  if (!handle) throw ValueError("the handle of a symbol is null");
  return *static_cast<SymbolObject*>(handle);
}

Symbol program_of(const graph::SymbolNode& node) {
  const auto text = node.text_attrs.find("subgraph");
  if (text == node.text_attrs.end() || text->second.empty()) {
    throw ValueError("[" + node.op_name + "] expected a symbol's JSON text as the attribute subgraph");
  }
  return Symbol(Symbol::load_json(text->second).entries());
}

}  // namespace kaon::mxnet

// Symbols as JSON text, and as text for people.
#include <fmt/format.h>

#include "kaon/graph/files/symbol_write.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/node/written_info.h"
#include "kaon/mxnet/symbol/symbol_object.h"
#include "kaon/ops/array/file_io.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

std::string json_of(const Symbol& symbol) {
  if (!symbol.defined()) throw ValueError("[SaveToJSON] the symbol has no outputs");
  return graph::write_symbol(symbol.entries(), written_info(symbol.entries(), has_numpy_shape()).get());
}

// As a symbol that a program has made: it is written by today's MXNet.
SymbolObject* loaded(const Symbol& symbol) { return new SymbolObject(Symbol(symbol.entries())); }

std::string describe(const SymbolNode& node) {
  if (!is_operator(node)) return fmt::format("Variable:{}\n", node.name);
  std::string text = fmt::format("--------------------\nOp:{}, Name={}\nInputs:\n", node.op_name, node.name);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SymbolEntry& e = node.inputs[i];
    text += fmt::format("\targ[{}]={}({})", i, e.node->name, e.output);
    text += is_operator(*e.node) ? "\n" : " version=0\n";
  }
  if (!node.text_attrs.empty()) text += "Attrs:\n";
  for (const auto& [key, value] : node.text_attrs) text += fmt::format("\t{}={}\n", key, value);
  return text;
}

}  // namespace

namespace kaon::mxnet {

std::string describe(const Symbol& symbol) {
  std::string text = "Symbol Outputs:\n";
  for (size_t i = 0; i < symbol.entries().size(); ++i) {
    const SymbolEntry& e = symbol.entries()[i];
    text += fmt::format("\toutput[{}]={}({})\n", i, e.node->name, e.output);
  }
  for (const SymbolNode* n : graph::topological_order(symbol.entries())) text += ::describe(*n);
  return text;
}

}  // namespace kaon::mxnet

int MXSymbolCreateFromFile(const char* fname, SymbolHandle* out) {
  return guard([&] { *out = loaded(Symbol::load(fname)); });
}

int MXSymbolCreateFromJSON(const char* json, SymbolHandle* out) {
  return guard([&] { *out = loaded(Symbol::load_json(json)); });
}

int MXSymbolSaveToJSON(SymbolHandle symbol, const char** out_json) {
  return guard([&] {
    returned().text = json_of(symbol_of(symbol).symbol);
    *out_json = returned().text.c_str();
  });
}

int MXSymbolSaveToFile(SymbolHandle symbol, const char* fname) {
  return guard([&] {
    const std::string text = json_of(symbol_of(symbol).symbol);
    ops::AtomicFile out{std::filesystem::path(fname)};
    out.write(text.data(), text.size());
    out.commit();
  });
}

int MXSymbolPrint(SymbolHandle symbol, const char** out_str) {
  return guard([&] {
    returned().text = describe(symbol_of(symbol).symbol);
    *out_str = returned().text.c_str();
  });
}

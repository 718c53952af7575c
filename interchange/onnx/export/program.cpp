#include "kaon/interchange/onnx/export/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx/convert/evaluate.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

using graph::SymbolNode;

namespace {

format::ValueInfo info_of(const std::string& name, const TensorMeta& meta) {
  format::ValueInfo info;
  info.name = name;
  info.type = format::element_type_of(meta.dtype);
  info.has_shape = true;
  for (int64_t d : meta.shape) info.dims.push_back({d, ""});
  return info;
}

bool is_fixed(const SymbolNode& node, const std::unordered_map<const SymbolNode*, bool>& fixed) {
  if (node.is_variable()) return node.constant.defined();
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const SymbolEntry& i) { return fixed.at(i.node.get()); });
}

}  // namespace

Builder write_program(const Program& program, int64_t opset, Builder::Constants constants) {
  autograd::ModeScope mode(false, false);
  // The program again, on variables whose shapes are known: so are all others then.
  std::unordered_map<std::string, Symbol> variables;
  for (const auto& [name, meta] : program.inputs) variables[name] = Symbol::variable(name, meta.shape, meta.dtype);
  for (const auto& [name, value] : program.values)
    variables[name] = Symbol::variable(name, value.shape(), value.dtype());
  const Symbol known = graph::compose(program.symbol, variables);

  Builder builder(opset, constants);
  std::unordered_map<const SymbolNode*, std::vector<std::string>> names;
  std::unordered_map<const SymbolNode*, bool> fixed;
  convert::Evaluator evaluate;
  for (const auto& [name, meta] : program.inputs) {
    const std::string own = builder.unique(name);
    names[variables[name].entry().node.get()] = {own};
    builder.graph().inputs.push_back(info_of(own, meta));
  }
  for (SymbolNode* const node : graph::topological_order(known.entries())) {
    fixed[node] = is_fixed(*node, fixed);
    if (names.contains(node)) continue;
    if (node->is_variable()) {
      const auto value = program.values.find(node->name);
      if (!node->constant.defined() && value == program.values.end()) {
        throw ValueError(fmt::format("[onnx] the variable {} is neither an input nor has it values", node->name));
      }
      names[node] = {builder.initializer(node->constant.defined() ? node->constant : value->second, node->name)};
      continue;
    }
    if (fixed[node]) {  // such as a range: its values
      for (int i = 0; i < node->visible_outputs(); ++i) {
        names[node].push_back(builder.initializer(
            evaluate(Symbol(SymbolEntry{engine::IntrusivePtr<SymbolNode>(node), uint32_t(i)})), node->output_name(i)));
      }
      continue;
    }
    const Writer write = find_writer(*node->op);
    if (!write)
      throw ValueError(fmt::format("[onnx] node {}: the operator {} is not written", node->name, node->op->name()));
    std::vector<std::string> read;
    for (const SymbolEntry& input : node->inputs) read.push_back(names.at(input.node.get()).at(input.output));
    Emit emit(*node, builder, std::move(read));
    write(emit);
    names[node] = emit.outputs();
  }
  const std::vector<std::string> outputs = program.symbol.list_outputs();
  for (size_t i = 0; i < known.entries().size(); ++i) {
    const SymbolEntry& entry = known.entries()[i];
    const std::string name = builder.unique(outputs[i]);
    format::Node identity;  // so that the output has the program's name
    identity.op_type = "Identity";
    identity.name = name + "_identity";
    identity.inputs = {names.at(entry.node.get()).at(entry.output)};
    identity.outputs = {name};
    builder.graph().nodes.push_back(identity);
    builder.graph().outputs.push_back(info_of(name, entry.node->outputs[entry.output]));
  }
  return builder;
}

}  // namespace kaon::onnx::exporting

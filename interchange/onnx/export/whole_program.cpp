#include "kaon/interchange/onnx/export/whole_program.h"

#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx/export/program.h"

namespace kaon::onnx::exporting {

KnownProgram with_known_shapes(const Program& program) {
  autograd::ModeScope mode(false, false);
  KnownProgram known;
  for (const auto& [name, meta] : program.inputs)
    known.variables[name] = Symbol::variable(name, meta.shape, meta.dtype);
  for (const auto& [name, value] : program.values)
    known.variables[name] = Symbol::variable(name, value.shape(), value.dtype());
  known.symbol = graph::compose(program.symbol, known.variables);
  return known;
}

Builder write_whole(const Program& program, const KnownProgram& known, int64_t opset, Builder::Constants constants) {
  autograd::ModeScope mode(false, false);
  Builder builder(opset, constants);
  ValueNames names;
  for (const auto& [name, meta] : program.inputs) {
    names[known.variables.at(name).entry().node.get()] = {builder.input(name, meta)};
  }
  const std::vector<std::string> written = write_program(known.symbol, builder, std::move(names), program.values);
  const std::vector<std::string> outputs = program.symbol.list_outputs();
  for (size_t i = 0; i < known.symbol.entries().size(); ++i) {
    const SymbolEntry& entry = known.symbol.entries()[i];
    const std::string name = builder.unique(outputs[i]);
    format::Node identity;  // so that the output has the program's name
    identity.op_type = "Identity";
    identity.name = name + "_identity";
    identity.inputs = {written[i]};
    identity.outputs = {name};
    builder.graph().nodes.push_back(identity);
    builder.graph().outputs.push_back(info_of(name, entry.node->outputs[entry.output]));
  }
  return builder;
}

}  // namespace kaon::onnx::exporting

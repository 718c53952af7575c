// Programs of Symbols as ONNX models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/export/external.h"
#include "kaon/interchange/onnx/export/program.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx {

using exporting::Builder;
using graph::SymbolNode;

namespace {

constexpr int64_t kFirstOpset = 17, kLastOpset = 24;

format::ValueInfo info_of(const std::string& name, const TensorMeta& meta, std::string_view batch) {
  format::ValueInfo info;
  info.name = name;
  info.type = format::element_type_of(meta.dtype);
  info.has_shape = true;
  for (int i = 0; i < meta.shape.ndim(); ++i) {
    if (i == 0 && !batch.empty()) info.dims.push_back({-1, std::string(batch)});
    else info.dims.push_back({meta.shape[i], ""});
  }
  return info;
}

}  // namespace

void save(const Symbol& program, const std::vector<std::pair<std::string, TensorMeta>>& inputs,
          const std::unordered_map<std::string, NDArray>& values, const std::filesystem::path& path,
          const SaveOptions& options) {
  if (options.opset < kFirstOpset || options.opset > kLastOpset) {
    throw ValueError(
        fmt::format("[onnx] opset {} is not written: {} to {} are", options.opset, kFirstOpset, kLastOpset));
  }
  autograd::ModeScope mode(false, false);
  // The program again, on variables whose shapes are known: so are all others then.
  std::unordered_map<std::string, Symbol> variables;
  for (const auto& [name, meta] : inputs) variables[name] = Symbol::variable(name, meta.shape, meta.dtype);
  for (const auto& [name, value] : values) variables[name] = Symbol::variable(name, value.shape(), value.dtype());
  const Symbol known = graph::compose(program, variables);

  Builder builder(options.opset);
  exporting::ValueNames names;
  for (const auto& [name, meta] : inputs) {
    names[variables[name].entry().node.get()] = {builder.unique(name)};
    builder.graph().inputs.push_back(info_of(name, meta, options.batch_name));
  }
  const std::vector<std::string> written = exporting::write_program(known, builder, std::move(names), values);
  const std::vector<std::string> outputs = program.list_outputs();
  for (size_t i = 0; i < known.entries().size(); ++i) {
    const SymbolEntry& entry = known.entries()[i];
    const std::string name = builder.unique(outputs[i]);
    format::Node identity;  // so that the output has the program's name
    identity.op_type = "Identity";
    identity.name = name + "_identity";
    identity.inputs = {written[i]};
    identity.outputs = {name};
    builder.graph().nodes.push_back(identity);
    builder.graph().outputs.push_back(info_of(name, entry.node->outputs[entry.output], options.batch_name));
  }
  format::Model model;
  // The first IR version that has the opset: files that older tools read too.
  model.ir_version = options.opset <= 18 ? 8 : options.opset <= 20 ? 9 : options.opset <= 22 ? 10 : 11;
  model.opsets[""] = options.opset;
  model.producer = "kaon";
  model.graph = std::move(builder.graph());
  model.graph.name = "kaon";
  exporting::write_files(model, builder.arrays(), path, options.max_file_bytes, options.min_external_bytes);
}

void save(const gluon::Block& block, const std::filesystem::path& path, const SaveOptions& options) {
  const gluon::BlockNode::Trace& trace = block.node()->latest_trace("onnx::save");
  const Symbol program = trace.graph->program();
  std::unordered_map<std::string, NDArray> values;
  const std::span names = std::span(trace.graph->input_names()).subspan(trace.num_inputs);  // then
  for (size_t i = 0; i < names.size(); ++i) values[names[i]] = trace.parameters[i].reduced();
  std::unordered_map<std::string, TensorMeta> metas;
  for (const SymbolNode* n : graph::topological_order(program.entries())) {
    if (n->is_variable() && !n->constant.defined()) metas[n->name] = n->outputs[0];
  }
  std::vector<std::pair<std::string, TensorMeta>> inputs;
  for (size_t i = 0; i < trace.num_inputs; ++i) {
    const std::string& name = trace.graph->input_names()[i];
    TensorMeta meta = metas.contains(name) ? metas[name] : TensorMeta();
    if (i < options.shapes.size()) meta.shape = options.shapes[i];
    if (!meta.shape.is_known())
      throw ShapeError(fmt::format("[onnx] the shape of {} is not known: give SaveOptions::shapes", name));
    inputs.emplace_back(name, meta);
  }
  save(program, inputs, values, path, options);
}

}  // namespace kaon::onnx

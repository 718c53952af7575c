#include "kaon/mxnet/control_flow/loop_node.h"

#include <fmt/format.h>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/node/written_info.h"

namespace kaon::mxnet {

using namespace graph;

namespace {

size_t subgraphs_of(ControlKind kind) {
  switch (kind) {
    case ControlKind::foreach: return 1;
    case ControlKind::while_loop: return 2;
    case ControlKind::cond: return 3;
  }
  return 0;
}

// The subgraph as a file would have it: the reader of files makes the program.
SymbolFile as_file(const Symbol& subgraph, const std::string& source) {
  check_composed(subgraph);
  SymbolFile file;
  file.source = source;
  std::unordered_map<const SymbolNode*, uint32_t> number;
  for (const SymbolNode* n : topological_order(subgraph.entries())) {
    FileNode& made = file.nodes.emplace_back();
    made.op = n->op_name;
    made.name = n->name;
    made.text_attrs = n->text_attrs;
    made.def = n->op;
    made.attrs = n->attrs;
    for (const SymbolEntry& e : n->inputs) made.inputs.push_back({number.at(e.node.get()), e.output});
    number[n] = uint32_t(file.nodes.size() - 1);
  }
  for (const SymbolEntry& e : subgraph.entries()) file.heads.push_back({number.at(e.node.get()), e.output});
  return file;
}

}  // namespace

void compose_loop(SymbolNode& node, const std::vector<const Symbol*>& args) {
  const OpDef& def = *find_control_flow(node.op_name);
  const size_t count = subgraphs_of(control_kind(def));
  if (args.size() < count) {
    throw ValueError(fmt::format("[Compose] {} takes {} subgraphs and its inputs, got {} arguments", node.op_name,
                                 count, args.size()));
  }
  SymbolFile file;
  file.source = "[Compose]";
  for (size_t i = count; i < args.size(); ++i) {
    if (args[i]->num_outputs() != 1) {
      throw ValueError(fmt::format("[Compose] argument {} has {} outputs, one is expected", i, args[i]->num_outputs()));
    }
    FileNode& variable = file.nodes.emplace_back();
    variable.op = "null";
    variable.name = args[i]->name();
  }
  const uint32_t at = uint32_t(file.nodes.size());
  FileNode loop;
  loop.op = node.op_name;
  loop.name = node.name;
  loop.text_attrs = node.text_attrs;
  loop.def = &def;
  for (uint32_t i = 0; i < at; ++i) loop.inputs.push_back({.node = i});
  std::vector<std::vector<uint32_t>> variables;
  for (size_t i = 0; i < count; ++i) {
    loop.subgraphs.push_back(as_file(*args[i], node.name));
    variables.push_back(subgraph_variables(loop.subgraphs.back()));
  }
  file.nodes.push_back(std::move(loop));
  read_control_flow(file, at, variables);

  const FileNode& made = file.nodes[at];
  std::vector<SymbolEntry> inputs;
  for (const FileEntry& e : made.inputs) {
    if (e.node < at) {
      inputs.push_back(args[count + e.node]->entries()[0]);
      continue;
    }
    const FileNode& key = file.nodes[e.node];  // of the loop's random numbers
    NodePtr source = make_node(key.def, key.name);
    source->attrs = key.attrs;
    source->outputs.resize(size_t(key.def->num_outputs(key.attrs.get())));
    inputs.push_back({std::move(source), e.output});
  }
  std::vector<Subgraph> subgraphs;
  for (size_t i = 0; i < count; ++i) {
    const std::vector<SymbolEntry>& heads = args[i]->entries();
    subgraphs.push_back({heads, made.subgraphs[i].values, written_info(heads, false)});
  }
  node.op = made.def;
  node.attrs = made.attrs;
  node.inputs = std::move(inputs);
  node.outputs.resize(size_t(made.def->num_outputs(made.attrs.get())));
  node.subgraphs = std::make_shared<const std::vector<Subgraph>>(std::move(subgraphs));
}

}  // namespace kaon::mxnet

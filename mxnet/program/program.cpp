#include "kaon/mxnet/program/program.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/shape_rules.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/node/copy_graph.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/table/boolean_mask.h"
#include "kaon/ops/attributes.h"

namespace kaon::mxnet {

namespace {

constexpr size_t most_entries = 16;  // as many shapes as a bucketing module may go through

bool is_set(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  bool on = otherwise;
  if (value && !ops::from_text(std::string_view(value), on)) {
    throw ValueError(fmt::format("{} must be 0 or 1, got '{}'", name, value));
  }
  return on;
}

}  // namespace

HybridizeOptions options_of_environment() {
  HybridizeOptions options;
  options.winograd = is_set("KAON_WINOGRAD", true);
  options.autotune = is_set("KAON_AUTOTUNE", false);
  return options;
}

std::vector<TensorMeta> metas_of(std::span<const NDArray* const> arrays) {
  std::vector<TensorMeta> metas;
  for (const NDArray* a : arrays) metas.push_back({a->shape(), a->dtype()});
  return metas;
}

Program::Program(const Symbol& symbol, HybridizeOptions options, std::string name)
    : options_(options), name_(std::move(name)) {
  if (!symbol.defined()) throw ValueError(fmt::format("[{}] the symbol has no outputs", name_));
  options_.check();
  check_composed(symbol);
  symbol_ = copy_graph(symbol);
  names_ = symbol_.list_inputs();
  for (const SymbolNode* n : graph::topological_order(symbol_.entries())) {
    depends_on_values_ = depends_on_values_ || n->op == &BooleanMask::def;
  }
  if (has_numpy_shape()) return;
  for (const SymbolNode* n : graph::topological_order(symbol_.entries())) {
    is_open_ = is_open_ || graph::open_shape(*n, true);
  }
}

std::shared_ptr<graph::CachedGraph> Program::make_graph(const Symbol& symbol) const {
  return std::make_shared<graph::CachedGraph>(symbol, names_, options_, name_);
}

Symbol Program::symbol_for(std::span<const TensorMeta> inputs) const {
  if (!is_open_) return symbol_;
  Shapes known;
  for (size_t i = 0; i < names_.size(); ++i) known[names_[i]] = inputs[i].shape;
  return graph::with_closed_shapes(symbol_, known);
}

std::shared_ptr<graph::CachedGraph> Program::graph_for(std::span<const TensorMeta> inputs) {
  if (inputs.size() != names_.size()) {
    throw ValueError(fmt::format("[{}] takes {} inputs, got {}", name_, names_.size(), inputs.size()));
  }
  std::lock_guard lock(lock_);
  if (!is_open_) {
    if (entries_.empty()) entries_.push_back({{}, make_graph(symbol_)});
    return entries_[0].graph;
  }
  std::vector<Shape> shapes;
  for (const TensorMeta& m : inputs) shapes.push_back(m.shape);
  for (Entry& e : entries_) {
    if (e.shapes == shapes) return e.graph;
  }
  if (entries_.size() >= most_entries) entries_.erase(entries_.begin());
  entries_.push_back({std::move(shapes), make_graph(symbol_for(inputs))});
  return entries_.back().graph;
}

std::vector<TensorMeta> Program::infer(std::span<const TensorMeta> inputs) const {
  graph::Graph g = graph::Graph::from_symbol(symbol_for(inputs), names_);
  graph::infer_graph(g, inputs);
  std::vector<TensorMeta> outputs;
  for (const graph::ValueId v : g.outputs) outputs.push_back(g.meta(v));
  return outputs;
}

}  // namespace kaon::mxnet

#include "kaon/mxnet/program/program.h"

#include <fmt/format.h>

#include <optional>

#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/node/copy_graph.h"

namespace kaon::mxnet {

namespace {

constexpr size_t most_entries = 16;  // as many shapes as a bucketing module may go through

// The shape of an array that an operator makes from nothing, where it is not known whole.
std::optional<Shape> open_shape(const SymbolNode& node) {
  if (!node.op || !node.inputs.empty()) return std::nullopt;
  std::optional<Shape> open;
  node.op->write(node.attrs.get(), [&](std::string_view key, const std::string& text, bool) {
    Shape shape;
    if (key != "shape" || !ops::from_text(text, shape)) return;
    for (const int64_t d : shape) {
      if (d <= 0) open = shape;
    }
  });
  return open;
}

void set_shape(SymbolNode& node, const Shape& shape) {
  ops::Attributes attrs(*node.op, node.attrs.get());
  std::string text = "(";
  for (const int64_t d : shape) text += fmt::format("{},", d);
  node.op->read(attrs.edit(), "shape", text + ")");
  node.attrs = std::move(attrs);
}

void check_composed(const Symbol& symbol) {
  for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
    if (is_operator(*n) && !n->op) throw ValueError(fmt::format("[{}] the operator has no inputs yet", n->op_name));
  }
}

}  // namespace

std::vector<TensorMeta> metas_of(std::span<const NDArray* const> arrays) {
  std::vector<TensorMeta> metas;
  for (const NDArray* a : arrays) metas.push_back({a->shape(), a->dtype()});
  return metas;
}

Program::Program(const Symbol& symbol, HybridizeOptions options, std::string name)
    : options_(options), name_(std::move(name)) {
  if (!symbol.defined()) throw ValueError(fmt::format("[{}] the symbol has no outputs", name_));
  check_composed(symbol);
  symbol_ = copy_graph(symbol);
  names_ = symbol_.list_inputs();
  if (has_numpy_shape()) return;
  for (const SymbolNode* n : graph::topological_order(symbol_.entries())) is_open_ = is_open_ || open_shape(*n);
}

std::shared_ptr<graph::CachedGraph> Program::make_graph(const Symbol& symbol) const {
  return std::make_shared<graph::CachedGraph>(symbol, names_, options_, name_);
}

Symbol Program::symbol_for(std::span<const TensorMeta> inputs) const {
  if (!is_open_) return symbol_;
  std::vector<SymbolEntry> open;
  for (SymbolNode* n : graph::topological_order(symbol_.entries())) {
    if (open_shape(*n)) open.push_back({NodePtr(n), 0});
  }
  Shapes known;
  for (size_t i = 0; i < names_.size(); ++i) known[names_[i]] = inputs[i].shape;
  std::vector<SymbolEntry> all = symbol_.entries();
  all.insert(all.end(), open.begin(), open.end());
  const std::vector<Shape> shapes = Symbol(all).infer_shape_partial(known).outputs;
  std::unordered_map<const SymbolNode*, Shape> found;
  for (size_t i = 0; i < open.size(); ++i) {
    const Shape& shape = shapes[symbol_.entries().size() + i];
    if (shape.is_known()) found[open[i].node.get()] = shape;
  }
  return copy_graph(
      symbol_, [](const SymbolEntry&) -> const SymbolEntry* { return nullptr; },
      [&](const SymbolNode& node, SymbolNode& copy) {
        if (const auto it = found.find(&node); it != found.end()) set_shape(copy, it->second);
      });
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

#include "kaon/gluon/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/ir/symbol_node.h"

namespace kaon::gluon::detail {

using namespace graph;
namespace {

struct Table {
  std::vector<SymbolNode*> nodes;                             // of the whole program
  std::unordered_map<const BlockNode*, Shape> output_shapes;  // of blocks' own nodes and their children's
  std::string text;
  std::unordered_set<std::string> counted;
  int rows = 0;
  int64_t total = 0, trainable = 0, shared = 0;

  void add_row(const std::string& layer, const std::string& shape, int64_t parameters) {
    text += fmt::format("{:>20}  {:>42} {:>15}\n", layer, shape, parameters);
  }

  // A loaded net is one block: a row for each of its operators, with the parameters that it reads first.
  void add_program(const BlockNode& block, int64_t own) {
    std::unordered_set<std::string_view> left;
    for (const auto& p : block.parameters) left.insert(p.key);
    int64_t in_rows = 0;
    for (const SymbolNode* n : nodes) {
      if (n->is_variable() || !n->name.starts_with(block.prefix)) continue;
      int64_t read = 0;
      for (const SymbolEntry& e : n->inputs) {
        if (!e.node->is_variable()) continue;
        for (const auto& p : block.parameters) {
          if (p.parameter.name() == e.node->name && left.erase(p.key)) read += p.parameter.shape().size();
        }
      }
      in_rows += read;
      add_row(fmt::format("{}-{}", n->op_name.empty() ? std::string(n->op->name()) : n->op_name, ++rows),
              n->outputs[0].shape.str(), read);
    }
    if (in_rows != own) add_row("read by no operator", "", own - in_rows);
  }

  void add(const BlockNode& block) {
    int64_t own = 0;
    for (const auto& p : block.parameters) {
      int64_t size = p.parameter.shape().size();
      own += size;
      total += size;
      if (p.parameter.grad_req() != GradReq::null) trainable += size;
      if (!counted.insert(p.parameter.name()).second) shared += size;
    }
    if (block.hint == "symbolblock") return add_program(block, own);
    if (block.hint == "sequential" || block.hint == "hybridsequential") return;
    auto it = output_shapes.find(&block);
    add_row(fmt::format("{}-{}", block.hint, ++rows), it == output_shapes.end() ? "" : it->second.str(), own);
  }
};

// The blocks in the order of their rows: `ended`, then the rest of the tree.
void add_rest(const BlockNode& block, std::vector<const BlockNode*>& ended) {
  for (const auto& c : block.children) add_rest(*c.node, ended);
  if (std::find(ended.begin(), ended.end(), &block) == ended.end()) ended.push_back(&block);
}

// The chain of blocks from `root` to the one that made the node of this name; prefixes of names tell.
void owners(const BlockNode& root, const std::string& name, std::vector<const BlockNode*>& chain) {
  chain.push_back(&root);
  const BlockNode* best = nullptr;
  for (const auto& c : root.children) {
    if (name.starts_with(c.node->prefix) && (!best || c.node->prefix.size() > best->prefix.size())) best = c.node.get();
  }
  if (best) owners(*best, name, chain);
}

}  // namespace

std::string summarize(const Block& block, FunctionRef<Symbol(const Symbol&)> call, const Shape& input, DType dtype) {
  CallOrder order;
  const Symbol output = call(Symbol::variable("data", input, dtype));
  add_rest(*block.node(), order.ended);
  Table table;
  std::vector<const BlockNode*> chain;
  table.nodes = topological_order(output.entries());
  for (const SymbolNode* n : table.nodes) {
    if (n->is_variable()) continue;
    chain.clear();
    owners(*block.node(), n->name, chain);
    for (const BlockNode* b : chain) table.output_shapes[b] = n->outputs[0].shape;  // the last one stays
  }
  for (Parameter p : block.collect_params()) {
    const Shape& shape = p.var().entry().node->outputs[0].shape;
    if (shape.is_known()) p.set_shape(shape);
    p.finish_deferred();
  }
  const std::string thin(80, '-'), thick(80, '=');
  table.text = fmt::format("{}\n{:>20}  {:>42} {:>15}\n{}\n", thin, "Layer (type)", "Output Shape", "Param #", thick);
  table.add_row("Input", input.str(), 0);
  for (const BlockNode* b : order.ended) table.add(*b);
  return table.text + fmt::format(
                          "{}\nTotal params: {}\nTrainable params: {}\nNon-trainable params: {}\n"
                          "Shared params in forward computation graph: {}\nUnique parameters in model: {}\n{}\n",
                          thick, table.total, table.trainable, table.total - table.trainable, table.shared,
                          table.total - table.shared, thin);
}

}  // namespace kaon::gluon::detail

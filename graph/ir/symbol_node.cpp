#include "kaon/graph/ir/symbol_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "kaon/graph/ir/destroy_in_turn.h"

namespace kaon::graph {

void SymbolNode::destroy() { destroy_in_turn(this); }

uint64_t SymbolNode::next_sequence() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string SymbolNode::output_name(int i) const {
  if (is_variable()) return name;
  if (visible_outputs() == 1) return name + "_output";
  return fmt::format("{}_output{}", name, i);
}

IntrusivePtr<SymbolNode> make_node(const OpDef* op, std::string name) {
  IntrusivePtr<SymbolNode> n(new SymbolNode);
  n->op = op;
  n->name = std::move(name);
  n->op_name = op ? std::string(op->name()) : "null";
  return n;
}

bool wants_equal_shapes(const SymbolNode& node) {
  constexpr std::string_view broadcasts = "broadcast_";
  return node.op && node.op->name().starts_with(broadcasts) && !node.op_name.starts_with(broadcasts);
}

void expect_equal_shapes(std::string_view name, std::span<const TensorMeta* const> inputs) {
  for (const TensorMeta* m : inputs) {
    if (m->shape == inputs[0]->shape) continue;
    throw ShapeError(
        fmt::format("[{}] inputs must have one shape, got {} and {}", name, inputs[0]->shape.str(), m->shape.str()));
  }
}

bool infer_node(SymbolNode& node, FunctionRef<std::vector<TensorMeta>&(SymbolNode&)> metas_of) {
  if (!node.op) return metas_of(node)[0].shape.is_known();
  std::vector<TensorMeta> in, out(node.outputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SymbolEntry& e = node.inputs[i];
    in.push_back(metas_of(*e.node)[e.output]);
    bool inferable = i < 32 && (node.op->traits_of(node.attrs.get()).infers >> i & 1);
    if (!in.back().shape.is_known() && !inferable) return false;
  }
  std::vector<TensorMeta*> inputs;
  for (TensorMeta& m : in) inputs.push_back(&m);
  if (wants_equal_shapes(node)) expect_equal_shapes(node.op_name, inputs);
  InferContext context(node.op->name().data(), node.op->traits, inputs, out);
  node.op->infer(node.attrs.get(), context);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SymbolEntry& e = node.inputs[i];
    if (!e.node->is_variable()) continue;
    TensorMeta& known = metas_of(*e.node)[e.output];
    if (!(known == in[i])) known = in[i];  // do not write what is the same: other threads may read it
  }
  metas_of(node) = std::move(out);
  return true;
}

bool infer_node(SymbolNode& node) {
  return infer_node(node, [](SymbolNode& n) -> std::vector<TensorMeta>& { return n.outputs; });
}

std::vector<SymbolNode*> topological_order(const std::vector<SymbolEntry>& heads) {
  std::vector<SymbolNode*> order;
  std::unordered_set<SymbolNode*> seen;
  std::vector<std::pair<SymbolNode*, size_t>> stack;  // node, next input to visit
  for (const SymbolEntry& h : heads) {
    if (!seen.insert(h.node.get()).second) continue;
    stack.emplace_back(h.node.get(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        SymbolNode* input = node->inputs[next++].node.get();
        if (seen.insert(input).second) stack.emplace_back(input, 0);
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
  return order;
}

std::vector<SymbolNode*> creation_order(const std::vector<SymbolEntry>& heads) {
  auto order = topological_order(heads);
  // variables first: those that an operator has made for missing inputs are younger than it
  std::sort(order.begin(), order.end(), [](const SymbolNode* a, const SymbolNode* b) {
    return std::pair(!a->is_variable(), a->sequence) < std::pair(!b->is_variable(), b->sequence);
  });
  return order;
}

namespace {
thread_local SymbolShapeWatch* t_shape_watch = nullptr;
}

SymbolShapeWatch::SymbolShapeWatch() : outer_(std::exchange(t_shape_watch, this)) {}
SymbolShapeWatch::~SymbolShapeWatch() {
  t_shape_watch = outer_;
  if (outer_) outer_->was_read_ |= was_read_;
}

void SymbolShapeWatch::note_read() {
  if (t_shape_watch) t_shape_watch->was_read_ = true;
}

namespace {
void same_inputs(const SymbolNode&, std::vector<SymbolEntry>&) {}

// Copies the program; `replace` may give an entry for a node instead of its copy, and may take its inputs in the copy;
// `change` may change the inputs of a copy.
template <class Replace, class Change = decltype(&same_inputs)>
Symbol rebuild(const Symbol& program, const std::string& prefix, Replace&& replace, Change&& change = &same_inputs) {
  std::unordered_map<const SymbolNode*, IntrusivePtr<SymbolNode>> copies;
  std::unordered_map<const SymbolNode*, SymbolEntry> replaced;
  auto mapped = [&](const SymbolEntry& e) {
    auto it = replaced.find(e.node.get());
    return it != replaced.end() ? it->second : SymbolEntry{copies.at(e.node.get()), e.output};
  };
  for (SymbolNode* n : creation_order(program.entries())) {
    SymbolEntry other;
    if constexpr (std::is_invocable_v<Replace&, SymbolNode&, const std::vector<SymbolEntry>&>) {
      std::vector<SymbolEntry> inputs;
      for (const SymbolEntry& e : n->inputs) inputs.push_back(mapped(e));
      other = replace(*n, inputs);
    } else {
      other = replace(*n);
    }
    if (other.node) {
      replaced[n] = other;
      continue;
    }
    if (n->is_variable()) {
      copies[n] = IntrusivePtr<SymbolNode>(n);
      continue;
    }
    std::vector<SymbolEntry> inputs;
    for (const SymbolEntry& e : n->inputs) inputs.push_back(mapped(e));
    change(*n, inputs);  // which may make nodes: they come before this one in the order of creation
    auto c = make_node(n->op, prefix + n->name);
    c->op_name = n->op_name;
    c->is_detached = n->is_detached;
    c->attrs = n->attrs;
    c->text_attrs = n->text_attrs;
    c->outputs = n->outputs;
    c->inputs = std::move(inputs);
    infer_node(*c);
    copies[n] = c;
  }
  std::vector<SymbolEntry> heads;
  for (const SymbolEntry& e : program.entries()) heads.push_back(mapped(e));
  return Symbol(std::move(heads));
}
}  // namespace

Symbol compose(const Symbol& program, const std::unordered_map<std::string, Symbol>& replacements) {
  return rebuild(program, NameScope::prefix(), [&](SymbolNode& n) {
    auto it = n.is_variable() ? replacements.find(n.name) : replacements.end();
    return it == replacements.end() ? SymbolEntry{} : it->second.entry();
  });
}

std::pair<Symbol, std::vector<std::string>> with_direct_labels(const Symbol& program,
                                                               const std::vector<std::string>& unknown) {
  std::unordered_set<const SymbolNode*> tainted;  // nodes that depend on a variable without a value
  for (SymbolNode* n : topological_order(program.entries())) {
    bool is_tainted = n->is_variable() && std::find(unknown.begin(), unknown.end(), n->name) != unknown.end();
    for (const SymbolEntry& e : n->inputs) is_tainted = is_tainted || tainted.count(e.node.get());
    if (is_tainted) tainted.insert(n);
  }
  std::vector<std::string> labels;
  Symbol result = rebuild(
      program, "", [](SymbolNode&) { return SymbolEntry{}; },
      [&](const SymbolNode& n, std::vector<SymbolEntry>& inputs) {
        for (size_t i = 0; i < inputs.size(); ++i) {
          bool is_label = int(i) < n.op->traits.inputs.size() && n.op->traits.inputs[int(i)] == "label";
          if (!is_label || !tainted.count(n.inputs[i].node.get())) continue;
          labels.push_back(n.name + "_label");
          inputs[i] = Symbol::variable(labels.back()).entry();
        }
      });
  return {result, labels};
}

Symbol with_replaced(const Symbol& program,
                     FunctionRef<SymbolEntry(const SymbolNode&, const std::vector<SymbolEntry>&)> replacement) {
  return rebuild(program, "", [&](SymbolNode& n, const std::vector<SymbolEntry>& inputs) {
    return n.op ? replacement(n, inputs) : SymbolEntry{};
  });
}

Symbol with_inputs(const Symbol& program, FunctionRef<void(const SymbolNode&, std::vector<SymbolEntry>&)> change) {
  return rebuild(
      program, "", [](SymbolNode&) { return SymbolEntry{}; }, change);
}

std::pair<Symbol, std::vector<std::pair<std::string, NDArray>>> constants_as_variables(const Symbol& program) {
  std::vector<std::pair<std::string, NDArray>> values;
  Symbol result = rebuild(program, "", [&](SymbolNode& n) {
    if (!n.constant.defined()) return SymbolEntry{};
    values.emplace_back(n.name, n.constant);
    return Symbol::variable(n.name, n.constant.shape(), n.constant.dtype()).entry();
  });
  return {result, values};
}

}  // namespace kaon::graph

// Control flow in a trace: the nodes that a body makes become a graph of their own, inside of one node.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "kaon/graph/autograd.h"
#include "kaon/graph/control_flow.h"
#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/ir/symbol_node.h"

namespace kaon::contrib::detail {

using namespace graph;

namespace {

thread_local int t_bodies = 0;  // that this thread is tracing, one in the other

namespace checks = graph::control_flow;
using Symbols = std::vector<Symbol>;

const TensorMeta& meta_of(const Symbol& s) { return s.entry().node->outputs[s.entry().output]; }

// Moves the nodes that are younger than it from the program to graphs; lives while these are traced. Values that these
// read from older nodes, variables and constants become further inputs, the same for all its graphs.
class Cutter {
 public:
  Cutter() { ++t_bodies; }
  ~Cutter() { --t_bodies; }
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;
  // A variable for a value of an iteration.
  Symbol variable(std::string_view name, const TensorMeta& meta) {
    variables_.push_back(Symbol::variable(name, meta.shape, meta.dtype));
    own_.insert(variables_.back().entry().node.get());
    return variables_.back();
  }
  // To be called first with all results, then graph() with each.
  void collect(const Symbols& results) {
    for (const SymbolNode* n : inside(results)) {
      for (const SymbolEntry& e : n->inputs) note(e);
    }
    for (const Symbol& s : results) note(s.entry());
  }

  Graph graph(const Symbols& results) const {
    Graph g;
    std::map<Key, ValueId> values;
    auto add_input = [&](const SymbolEntry& e, std::string name) {
      Node n;
      n.name = std::move(name);
      n.outputs.resize(1);
      const ValueId v = g.add(std::move(n));
      g.inputs.push_back(v.node);
      values[key(e)] = v;
    };
    for (size_t i = 0; i < variables_.size(); ++i) add_input(variables_[i].entry(), fmt::format("value{}", i));
    for (size_t i = 0; i < captured_.size(); ++i) add_input(captured_[i].entry(), fmt::format("captured{}", i));
    for (const SymbolNode* s : inside(results)) {
      Node n;
      n.op = s->op;
      n.attrs = s->attrs;
      // names that do not tell where it was traced: equal bodies are one program
      n.name = fmt::format("{}{}", s->op->name(), g.nodes.size());
      n.outputs.resize(s->outputs.size());
      for (const SymbolEntry& e : s->inputs) n.inputs.push_back(values.at(key(e)));
      const ValueId v = g.add(std::move(n));
      for (uint32_t k = 0; k < s->outputs.size(); ++k) values[{s, k}] = {v.node, k};
    }
    for (const Symbol& s : results) g.outputs.push_back(values.at(key(s.entry())));
    g.num_forward_outputs = uint32_t(g.outputs.size());
    return g;
  }
  const Symbols& captured() const { return captured_; }

 private:
  using Key = std::pair<const SymbolNode*, uint32_t>;
  static Key key(const SymbolEntry& e) { return {e.node.get(), e.output}; }

  bool is_inside(const SymbolNode& n) const { return n.op && n.sequence > mark_->sequence; }

  // The younger nodes in the order in which the program made them, as in an imperative run.
  std::vector<const SymbolNode*> inside(const Symbols& results) const {
    std::vector<const SymbolNode*> found, stack;
    std::unordered_set<const SymbolNode*> seen;
    auto visit = [&](const SymbolNode* n) {
      if (is_inside(*n) && seen.insert(n).second) stack.push_back(n);
    };
    for (const Symbol& s : results) visit(s.entry().node.get());
    while (!stack.empty()) {
      const SymbolNode* n = stack.back();
      stack.pop_back();
      found.push_back(n);
      for (const SymbolEntry& e : n->inputs) visit(e.node.get());
    }
    std::sort(found.begin(), found.end(),
              [](const SymbolNode* a, const SymbolNode* b) { return a->sequence < b->sequence; });
    return found;
  }

  void note(const SymbolEntry& e) {
    if (is_inside(*e.node) || own_.count(e.node.get()) || !known_.emplace(key(e)).second) return;
    captured_.push_back(Symbol(e));
  }

  IntrusivePtr<SymbolNode> mark_{new SymbolNode};
  Symbols variables_, captured_;
  std::unordered_set<const SymbolNode*> own_;
  std::set<Key> known_;
};

template <ControlKind K>
Symbols make_node(ControlFlow program, Symbols inputs, const Cutter& cutter, const std::source_location& site) {
  program.kind = K;
  inputs.insert(inputs.end(), cutter.captured().begin(), cutter.captured().end());
  program.num_captured = int(cutter.captured().size());
  for (const Graph& g : program.graphs) {
    for (const Node& n : g.nodes) {
      if (passes::updates_inputs(n, autograd::is_training())) checks::refuse_update(*n.op);
    }
  }
  const Draws draws = find_draws(program.graphs);
  program.is_random = draws.any;
  if (draws.any) {
    const op::ControlFlowKey key{.training_only = !draws.always};
    Symbol value;
    Symbol::apply(op::ControlFlowKey::def, &key, {}, std::span(&value, 1), site, "");
    inputs.push_back(value);
  }
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  Symbols results(size_t(program.num_results()));
  const op::ControlFlowOp<K> op{intern_program(std::move(program))};
  Symbol::apply(op::ControlFlowOp<K>::def, &op, pointers, results, site, "");
  return results;
}

Step<Symbol> divided(Symbols all, size_t outputs) {
  return {{all.begin(), all.begin() + std::ptrdiff_t(outputs)}, {all.begin() + std::ptrdiff_t(outputs), all.end()}};
}

Symbols joined(Symbols a, const Symbols& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

bool is_tracing_body() { return t_bodies > 0; }

Step<Symbol> run(const Foreach<Symbol>& loop) {
  if (loop.data.empty()) checks::common_length("foreach", {});
  Cutter cutter;
  Symbols row, states;
  for (const Symbol& s : loop.data) row.push_back(cutter.variable("foreach_row", row_of(meta_of(s))));
  for (const Symbol& s : loop.states) states.push_back(cutter.variable("foreach_state", meta_of(s)));
  const Step<Symbol> step = loop.body(row, states);
  checks::check_counts("foreach", "states", states.size(), step.states.size());
  const Symbols results = joined(step.outputs, step.states);
  cutter.collect(results);
  ControlFlow program{
      .num_data = int(row.size()), .num_states = int(states.size()), .num_outputs = int(step.outputs.size())};
  program.graphs.push_back(cutter.graph(results));
  return divided(make_node<ControlKind::foreach>(std::move(program), joined(loop.data, loop.states), cutter, loop.site),
                 step.outputs.size());
}

Step<Symbol> run(const While<Symbol>& loop) {
  checks::check_limit("while_loop", loop.max_iterations);
  Cutter cutter;
  Symbols states;
  for (const Symbol& s : loop.states) states.push_back(cutter.variable("while_loop_variable", meta_of(s)));
  const Symbols condition{loop.condition(states)};
  const Step<Symbol> step = loop.body({}, states);
  checks::check_counts("while_loop", "loop variables", states.size(), step.states.size());
  const Symbols results = joined(step.outputs, step.states);
  cutter.collect(results);
  cutter.collect(condition);
  ControlFlow program{
      .num_states = int(states.size()), .num_outputs = int(step.outputs.size()), .max_iterations = loop.max_iterations};
  program.graphs = {cutter.graph(results), cutter.graph(condition)};
  if (find_draws(std::span(program.graphs).subspan(1)).any) {
    throw ValueError("[while_loop] the condition must not draw random numbers");
  }
  return divided(make_node<ControlKind::while_loop>(std::move(program), loop.states, cutter, loop.site),
                 step.outputs.size());
}

Symbols run(const Cond<Symbol>& cond) {
  Cutter cutter;
  cutter.variable("cond_predicate", meta_of(cond.predicate));
  const Symbols then = cond.then(), otherwise = cond.otherwise();
  checks::check_branch_counts(then.size(), otherwise.size());
  cutter.collect(then);
  cutter.collect(otherwise);
  ControlFlow program{.num_states = 1, .num_outputs = int(then.size())};
  program.graphs = {cutter.graph(then), cutter.graph(otherwise)};
  return make_node<ControlKind::cond>(std::move(program), {cond.predicate}, cutter, cond.site);
}

}  // namespace kaon::contrib::detail

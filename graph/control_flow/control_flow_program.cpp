#include "kaon/graph/control_flow/control_flow_program.h"
#include "kaon/engine/base/process_wide.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace kaon::graph {
namespace {

std::string text_of(const TensorMeta& m) { return fmt::format("{} {}", m.shape.str(), name_of(m.dtype)); }

bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.name == b.name && a.outputs.size() == b.outputs.size() &&
         (!a.op || a.op->equal(a.attrs.get(), b.attrs.get()));
}
bool same_graph(const Graph& a, const Graph& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node);
}
auto numbers(const ControlFlow& p) {
  return std::tuple(p.kind, p.num_data, p.num_states, p.num_captured, p.num_outputs, p.num_kept, p.max_iterations,
                    p.is_random);
}
bool same_program(const ControlFlow& a, const ControlFlow& b) {
  return numbers(a) == numbers(b) &&
         std::equal(a.graphs.begin(), a.graphs.end(), b.graphs.begin(), b.graphs.end(), same_graph);
}

}  // namespace

const char* ControlFlow::name() const {
  constexpr const char* names[] = {"foreach", "while_loop", "cond"};
  return names[size_t(kind)];
}

std::vector<TensorMeta> ControlFlow::iteration(std::span<const TensorMeta> inputs) const {
  std::vector<TensorMeta> all(inputs.begin(), inputs.begin() + num_values());
  for (int i = 0; i < num_data; ++i) all[size_t(i)] = row_of(all[size_t(i)]);
  return all;
}

Graph ControlFlow::inferred(size_t i, std::span<const TensorMeta> iteration) const {
  Graph g = graphs[i];
  infer_graph(g, iteration);
  if (i == 1 && kind == ControlKind::while_loop) {
    control_flow::check_scalar(name(), g.meta(g.outputs[0]));
  } else if (is_loop()) {
    for (size_t k = 0; k < size_t(num_states); ++k) {
      control_flow::check_state(name(), k, iteration[size_t(num_data) + k], g.meta(g.outputs[size_t(num_outputs) + k]));
    }
  }
  return g;
}

std::vector<TensorMeta> ControlFlow::infer(std::span<const TensorMeta> inputs) const {
  if (kind == ControlKind::cond) {
    control_flow::check_scalar(name(), inputs[0]);
  }
  const int64_t length = kind == ControlKind::foreach
                             ? control_flow::common_length(name(), inputs.first(size_t(num_data)))
                             : max_iterations;
  const std::vector<TensorMeta> values = iteration(inputs);
  const Graph body = inferred(0, values);
  std::vector<TensorMeta> results;
  for (ValueId v : body.outputs) results.push_back(body.meta(v));
  if (graphs.size() > 1) {
    const Graph second = inferred(1, values);
    if (kind == ControlKind::cond) {
      std::vector<TensorMeta> others;
      for (ValueId v : second.outputs) others.push_back(second.meta(v));
      control_flow::check_branches(results, others);
    }
  }
  for (size_t i = 0; is_loop() && i < results.size(); ++i) {
    if (is_stacked(int(i))) results[i] = rows_of(results[i], length);
  }
  return results;
}

namespace {
struct Programs : WithMutex {
  std::multimap<std::string, std::unique_ptr<const ControlFlow>> table;
};
struct Gradients : WithMutex {
  using Key = std::tuple<const ControlFlow*, std::vector<Arrives>, std::vector<Arrives>, std::vector<bool>,
                         std::optional<std::vector<int>>>;
  std::map<Key, std::unique_ptr<const ControlFlowGradient>> table;
};
}  // namespace

const ControlFlow* intern_program(ControlFlow program) {
  program.is_own = std::ranges::any_of(program.graphs, [](const Graph& g) {
    return std::ranges::any_of(g.nodes,
                               [](const Node& n) { return n.op && n.op->traits_of(n.attrs.get()).ignores_head; });
  });
  Programs& all = ProcessWide<Programs>::get();
  std::string text = program.name();
  for (const Graph& g : program.graphs) text += g.str();
  std::lock_guard lock(all);
  const auto [first, last] = all.table.equal_range(text);
  for (auto it = first; it != last; ++it) {
    if (same_program(*it->second, program)) return it->second.get();
  }
  return all.table.emplace(std::move(text), std::make_unique<const ControlFlow>(std::move(program)))->second.get();
}

const ControlFlowGradient* intern_gradient(ControlFlowGradient gradient) {
  Gradients& all = ProcessWide<Gradients>::get();
  std::lock_guard lock(all);
  auto& kept = all.table[{gradient.program, gradient.gradients, gradient.heads, gradient.own, gradient.kept}];
  if (!kept) kept = std::make_unique<const ControlFlowGradient>(std::move(gradient));
  return kept.get();
}

TensorMeta row_of(const TensorMeta& array) {
  if (!array.shape.is_known()) return {Shape::unknown(), array.dtype};
  Shape shape;
  for (int d = 1; d < array.shape.ndim(); ++d) shape.push_back(array.shape[d]);
  return {shape.empty() ? Shape(1) : shape, array.dtype};
}

TensorMeta rows_of(const TensorMeta& row, int64_t n) {
  Shape shape(n);
  for (int d = 0; d < row.shape.ndim(); ++d) shape.push_back(row.shape[d]);
  return {shape, row.dtype};
}

namespace control_flow {

int64_t common_length(const char* name, std::span<const TensorMeta> data) {
  if (data.empty()) throw ValueError(fmt::format("[{}] needs data to go along, got an empty list", name));
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].shape.ndim() == 0) throw ShapeError(fmt::format("[{}] data {} has no axis to go along", name, i));
    if (data[i].shape[0] != data[0].shape[0]) {
      throw ShapeError(fmt::format("[{}] all data need the same length, data 0 has {} rows, data {} has {}", name,
                                   data[0].shape[0], i, data[i].shape[0]));
    }
  }
  return data[0].shape[0];
}

void check_counts(const char* name, const char* what, size_t expected, size_t got) {
  if (expected == got) return;
  throw ValueError(fmt::format("[{}] expected {} {}, the body returned {}", name, expected, what, got));
}

void check_state(const char* name, size_t i, const TensorMeta& before, const TensorMeta& after) {
  if (before == after) return;
  const std::string text = fmt::format("[{}] a state keeps its shape and dtype: state {} was {}, the body returned {}",
                                       name, i, text_of(before), text_of(after));
  if (before.shape == after.shape) throw TypeError(text);
  throw ShapeError(text);
}

void check_output(const char* name, size_t i, const TensorMeta& first, const TensorMeta& now) {
  if (first == now) return;
  throw ShapeError(
      fmt::format("[{}] output {} was {} in the first iteration and is {} now", name, i, text_of(first), text_of(now)));
}

void check_scalar(const char* name, const TensorMeta& predicate) {
  if (predicate.shape.size() == 1) return;
  throw ShapeError(
      fmt::format("[{}] the condition must have one element, got an array of shape {}", name, predicate.shape.str()));
}

void check_branch_counts(size_t then, size_t otherwise) {
  if (then != otherwise) {
    throw ValueError(fmt::format("[cond] one branch returns {} arrays, the other {}", then, otherwise));
  }
}

void check_branches(const std::vector<TensorMeta>& then, const std::vector<TensorMeta>& otherwise) {
  check_branch_counts(then.size(), otherwise.size());
  for (size_t i = 0; i < then.size(); ++i) {
    if (then[i] == otherwise[i]) continue;
    throw ShapeError(fmt::format("[cond] output {} is {} from one branch and {} from the other", i, text_of(then[i]),
                                 text_of(otherwise[i])));
  }
}

void check_limit(const char* name, int64_t max_iterations) {
  if (max_iterations < 0) {
    throw ValueError(fmt::format("[{}] max_iterations must not be negative, got {}", name, max_iterations));
  }
}

void refuse_update(const OpDef& op) {
  throw ValueError(fmt::format(
      "[{}] updates what it reads, which it cannot do in the body of a loop or a branch: call it outside", op.name()));
}

}  // namespace control_flow
}  // namespace kaon::graph

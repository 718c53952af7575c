#include "kaon/graph/plan/batch_padding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/plan_ops/pad_rows.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {
namespace {

// The kind of a value's first dimension.
enum class First : uint8_t { other, rows, hidden };

// Whether a node at least one of whose inputs has rows keeps them apart. `first`: by node and output.
bool keeps_rows(const Graph& g, const Node& n, const std::vector<std::vector<First>>& first) {
  if (draws_numbers(*n.op, n.attrs.get(), false) || passes::updates_inputs(n, false)) return false;
  std::vector<RowQuery::Input> inputs;
  for (ValueId v : n.inputs) inputs.push_back({&g.meta(v).shape, first[v.node][v.output] == First::rows});
  const RowQuery query(n.op->name().data(), inputs, n.outputs[0]);
  if (n.op->keeps_rows) return n.op->keeps_rows(n.attrs.get(), query);
  return n.op->traits_of(n.attrs.get()).pointwise && query.is_aligned();
}

Graph with_rows(const Symbol& program, const std::vector<std::string>& names, std::vector<TensorMeta> metas,
                size_t num_data, int64_t rows) {
  Graph g = Graph::from_symbol(program, names);
  for (size_t i = 0; i < num_data; ++i) metas[i].shape[0] = rows;
  infer_graph(g, metas);
  return g;
}

}  // namespace

int64_t bucket_of(int64_t rows, const Shape& sizes, const char* who) {
  if (rows == 0) return 0;
  if (sizes.empty()) return int64_t(std::bit_ceil(uint64_t(rows)));
  const auto found = std::lower_bound(sizes.begin(), sizes.end(), rows);
  if (found == sizes.end()) {
    throw ShapeError(fmt::format("[{}] the largest bucket has {} rows, got {}", who, sizes.back(), rows));
  }
  return *found;
}

void check_buckets(const Shape& sizes) {
  for (int i = 0; i < sizes.ndim(); ++i) {
    if (sizes[i] <= (i ? sizes[i - 1] : 0)) {
      throw ValueError(fmt::format("[hybridize] buckets must be positive and ascending, got {}", sizes.str()));
    }
  }
}

int64_t rows_of(std::span<const NDArray* const> data, const char* who) {
  for (const NDArray* a : data) {
    if (a->ndim() == 0 || a->shape()[0] != data[0]->shape()[0]) {
      throw ShapeError(fmt::format("[{}] policy bucket needs data whose first dimensions are equal, got {} and {}", who,
                                   data[0]->shape().str(), a->shape().str()));
    }
  }
  return data[0]->shape()[0];
}

std::vector<bool> prove_rows_independent(const Symbol& program, const std::vector<std::string>& input_names,
                                         const std::vector<TensorMeta>& inputs, size_t num_data, int64_t rows,
                                         const std::string& who) {
  auto mixes = [&](const Node& n, const std::string& why) {
    throw ShapeError(
        fmt::format("[{}] policy bucket needs rows that do not depend on each other, but node {} ({}) {}; use "
                    "PlanPolicy::retrace",
                    who, n.name, n.op ? n.op->name() : "input", why));
  };
  const Graph g = with_rows(program, input_names, inputs, num_data, rows);
  Graph more;
  try {
    more = with_rows(program, input_names, inputs, num_data, rows + 1);
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(" with one row more, which policy bucket tries"));
  }
  std::vector<std::vector<First>> first;
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    first.emplace_back(n.outputs.size(), First::other);
    if (n.is_input() && i < num_data) first[i][0] = First::rows;  // inputs have the first numbers
    auto is = [&](First f) {
      return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return first[v.node][v.output] == f; });
    };
    if (is(First::hidden)) mixes(n, "uses a statistic, of which nothing is known");
    if (!is(First::rows)) continue;
    if (!keeps_rows(g, n, first)) mixes(n, "mixes them, or is not known to keep them apart");
    const int visible = n.op->visible_outputs(n.attrs.get());
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      first[i][k] = int(k) < visible ? First::rows : First::hidden;
      Shape a = n.outputs[k].shape, b = more.nodes[i].outputs[k].shape;
      if (first[i][k] == First::hidden) continue;
      const bool has_rows = a.ndim() > 0 && a.ndim() == b.ndim() && a[0] == rows && b[0] == rows + 1;
      if (has_rows) b[0] = rows;
      if (!has_rows || !(a == b)) {
        mixes(n, fmt::format("makes {} of {} rows and {} of {}", n.outputs[k].shape.str(), rows,
                             more.nodes[i].outputs[k].shape.str(), rows + 1));
      }
    }
  }
  std::vector<bool> result;
  for (ValueId v : g.outputs) {
    if (first[v.node][v.output] == First::hidden) mixes(g.nodes[v.node], "returns a statistic");
    result.push_back(first[v.node][v.output] == First::rows);
  }
  return result;
}

Graph pad_rows(Graph graph, size_t num_data, const std::vector<bool>& has_rows) {
  const auto uses = count_uses(graph);
  std::vector<bool> is_data(graph.nodes.size());
  for (size_t i = 0; i < num_data; ++i) is_data[graph.inputs[i]] = uses[graph.inputs[i]][0] > 0;
  Graph to;
  std::vector<uint32_t> now;  // by old node
  auto add = [&](const auto& op, ValueId input, const char* suffix) {
    Node n;
    passes::set_operator(n, op);
    n.name = to.nodes[input.node].name + suffix;
    n.inputs = {input};
    n.outputs = {to.meta(input)};
    return to.add(std::move(n));
  };
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    Node n = std::move(graph.nodes[i]);
    for (ValueId& v : n.inputs) v.node = now[v.node];
    const ValueId added = to.add(std::move(n));
    now.push_back(added.node);
    if (is_data[i]) now[i] = add(op::PadRows{}, added, "_padded").node;
  }
  for (uint32_t i : graph.inputs) to.inputs.push_back(is_data[i] ? now[i] - 1 : now[i]);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId v{now[graph.outputs[i].node], graph.outputs[i].output};
    to.outputs.push_back(has_rows[i] ? add(op::TakeRows{}, v, "_rows") : v);
  }
  to.num_forward_outputs = graph.num_forward_outputs;
  return to;
}

}  // namespace kaon::graph

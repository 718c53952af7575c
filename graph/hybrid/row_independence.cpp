#include "kaon/graph/hybrid/row_independence.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon {
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

}  // namespace kaon

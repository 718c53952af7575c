#include "kaon/graph/plan/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/op_def.h"

namespace kaon {
namespace {

constexpr int64_t piece = 1 << 18;  // bytes

}  // namespace

constinit const OpDef PadRows::def = make_op_def<PadRows>();
constinit const OpDef TakeRows::def = make_op_def<TakeRows>();

void run_cpu(const PadRows&, KernelContext& c) {
  const int64_t given = int64_t(c.in(0).bytes());
  c.run.parallel_for(int64_t(c.out().bytes()), piece, [&](int64_t begin, int64_t end) {
    const int64_t copied = std::clamp(given, begin, end);
    if (copied > begin) std::memcpy(c.out().as<char>() + begin, c.in(0).as<char>() + begin, size_t(copied - begin));
    if (end > copied) std::memset(c.out().as<char>() + copied, 0, size_t(end - copied));
  });
}

void run_cpu(const TakeRows&, KernelContext& c) {
  c.run.parallel_for(int64_t(c.out().bytes()), piece, [&](int64_t begin, int64_t end) {
    std::memcpy(c.out().as<char>() + begin, c.in(0).as<char>() + begin, size_t(end - begin));
  });
}

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
    if (is_data[i]) now[i] = add(PadRows{}, added, "_padded").node;
  }
  for (uint32_t i : graph.inputs) to.inputs.push_back(is_data[i] ? now[i] - 1 : now[i]);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId v{now[graph.outputs[i].node], graph.outputs[i].output};
    to.outputs.push_back(has_rows[i] ? add(TakeRows{}, v, "_rows") : v);
  }
  to.num_forward_outputs = graph.num_forward_outputs;
  return to;
}

}  // namespace kaon

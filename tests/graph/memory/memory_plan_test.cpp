#include "kaon/graph/memory/memory_plan.h"

#include <map>

#include "kaon/tests/graph/support.h"

namespace memory_plan_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// Runs the plan on paper, forward nodes, then backward nodes: who wrote each byte last? Every input must still be
// there. Knows nothing of lifetimes.
void run_on_paper(const Graph& g, const MemoryPlan& plan) {
  std::vector<const Node*> owner(plan.arena_bytes, nullptr);
  auto each_byte = [&](ValueId v, auto&& visit) {
    const ValueSlot& s = plan.slot(v);
    if (s.place != Place::arena) return;
    REQUIRE(s.offset % 64 == 0);
    REQUIRE(s.offset + s.bytes <= plan.arena_bytes);
    for (size_t i = s.offset; i < s.offset + s.bytes; ++i) visit(owner[i]);
  };
  auto source = [&](ValueId v) {  // through views, to the node that computes it
    while (g.nodes[v.node].op && g.nodes[v.node].op->traits.view) v = g.nodes[v.node].inputs[0];
    return v;
  };
  std::map<std::pair<uint32_t, uint32_t>, bool> written;
  for (Phase phase : {Phase::forward, Phase::backward}) {
    for (uint32_t i = 0; i < g.nodes.size(); ++i) {
      const Node& n = g.nodes[i];
      if (!n.op || n.op->traits.view || n.phase != phase) continue;
      for (ValueId v : n.inputs) {
        ValueId from = source(v);
        if (!g.nodes[from.node].op) continue;
        INFO("node " << n.name << " reads " << g.nodes[v.node].name);
        REQUIRE(written[{from.node, from.output}]);
        bool intact = true;
        each_byte(v, [&](const Node* o) { intact = intact && o == &g.nodes[from.node]; });
        REQUIRE(intact);
      }
      for (uint32_t k = 0; k < n.outputs.size(); ++k) {
        each_byte({i, k}, [&](const Node*& o) { o = &n; });
        written[{i, k}] = true;
      }
    }
  }
}

Graph chain(int length, const Shape& shape) {
  Symbol x = sym.var("data", shape);
  for (int i = 0; i < length; ++i) x = sym.tanh(x) + 1;
  Graph g = Graph::from_symbol(x, {"data"});
  const TensorMeta in{shape, DType::float32};
  infer_graph(g, std::span(&in, 1));
  return g;
}

}  // namespace

TEST_CASE("memory plan: values that are alive together never overlap, on 300 random programs") {
  int with_gradient = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    CachedGraph graph(random_symbol(5 + int(seed % 40), seed), data_names(2),
                      {.static_alloc = true, .exact = seed % 2 == 0}, "random");
    std::vector<NDArray> inputs{numbers({4, 6}, 1), numbers({4, 6}, 2)};
    for (NDArray& a : inputs) a.attach_grad();
    if (seed % 3) {
      autograd::record([&] { return call(graph, inputs); });
      ++with_gradient;
    } else {
      call(graph, inputs);
    }
    auto plan = graph.plan();
    plan->graph().validate();
    plan->memory().check(plan->graph());
    run_on_paper(plan->graph(), plan->memory());
    CHECK(plan->memory().arena_bytes <= plan->memory().unplanned_bytes);
  }
  nd.waitall();
  CHECK(with_gradient == 200);
}

TEST_CASE("memory plan: a chain of elementwise operators needs the memory of one value") {
  Graph g = chain(20, {100, 100});
  MemoryPlan plan = plan_memory(g);
  CHECK(plan.arena_bytes == 40000);
  CHECK(plan.report(g).find("in place") != std::string::npos);
  run_on_paper(g, plan);
}

TEST_CASE("memory plan: two values that are alive at once and a third after them take two places") {
  Symbol x = sym.var("data", {64});
  Symbol y =
      sym.concat(op::Concat{.dim = 0}, sym.concat(op::Concat{.dim = 0}, sym.tanh(x), sym.sigmoid(x)).slice(0, 64), x);
  Graph g = Graph::from_symbol(y, {"data"});
  const TensorMeta in{Shape(64), DType::float32};
  infer_graph(g, std::span(&in, 1));
  MemoryPlan plan = plan_memory(g);
  run_on_paper(g, plan);
  // tanh and sigmoid, then the concat of both (512 bytes) beside them, the slice over tanh
  CHECK(plan.arena_bytes == 256 + 256 + 512);
  CHECK(plan.unplanned_bytes == 256 + 256 + 512 + 256);
}

TEST_CASE("memory plan: the report names values, bytes, peak and saving") {
  Graph g = chain(2, {4, 4});
  MemoryPlan plan = plan_memory(g);
  std::string report = plan.report(g);
  CHECK_THAT(report, Contains("tanh0") || Contains("tanh"));
  CHECK_THAT(report, Contains("arena 64 bytes, 192 without sharing: 67 % saved"));
}

TEST_CASE("memory plan: check finds an overlap and a value beyond the arena") {
  Symbol x = sym.var("data", {64});
  Symbol y = sym.broadcast_hypot(sym.tanh(x), sym.mean(sym.sigmoid(x), {.keepdims = true}));
  Graph g = Graph::from_symbol(y * 2 + sym.sum(y), {"data"});
  const TensorMeta in{Shape(64), DType::float32};
  infer_graph(g, std::span(&in, 1));
  MemoryPlan plan = plan_memory(g);
  plan.check(g);
  MemoryPlan moved = plan;
  moved.arena_bytes = 128;
  CHECK_THROWS_AS(moved.check(g), Error);
  moved = plan;
  for (auto& node : moved.slots) {
    for (ValueSlot& s : node) s.offset = 0;
  }
  CHECK_THROWS_WITH(moved.check(g), Contains("are alive together and overlap"));
}

TEST_CASE("memory plan: zero-size values take no memory") {
  Graph g = chain(3, {0, 5});
  MemoryPlan plan = plan_memory(g);
  CHECK(plan.arena_bytes == 0);
  plan.check(g);
}

}  // namespace memory_plan_test

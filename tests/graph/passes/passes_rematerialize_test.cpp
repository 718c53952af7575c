// The pass that computes values of the forward again for the backward.
#include "kaon/graph/memory/memory_plan.h"
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_rematerialize_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

TEST_CASE("rematerialize: what is repeated, and what is not") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  const std::vector<std::string> names{"x", "w", "v"};
  const std::vector<NDArray> inputs{numbers({8, 6}, 1), numbers({5, 6}, 2), numbers({4, 5}, 3)};
  Symbol hidden = sym.FullyConnected(x, w, {.num_hidden = 5});
  Symbol dropped = sym.Dropout(sym.erf(hidden), {.p = 0.5});
  Symbol y = sym.FullyConnected(dropped, v, {.num_hidden = 4});
  Graph before = with_gradient(traced(y, names, inputs), {true, true, true});
  Graph after = passes::rematerialize(before, true, 4);
  after.validate();
  CHECK(count(after, "FullyConnected") == count(before, "FullyConnected"));
  CHECK(count(after, "Dropout") == 1);
  CHECK(count(after, "erf") == 2);  // from hidden, which erf's gradient reads anyway
  CHECK(count(after, "broadcast_mul") == count(before, "broadcast_mul") + 1);  // the dropped value, by its mask
  size_t again = 0;
  for (uint32_t i = 0; i < after.nodes.size(); ++i) {
    const Node& n = after.nodes[i];
    again += n.is_rematerialized;
    if (!n.is_rematerialized) continue;
    CHECK(n.phase == Phase::backward);
    REQUIRE(i + 1 < after.nodes.size());
    // it stands before its first reader
    const Node& next = after.nodes[i + 1];
    CHECK(std::any_of(next.inputs.begin(), next.inputs.end(), [&](ValueId in) { return in.node == i; }));
  }
  CHECK(again == 2);
}

// Statistics and masks of 16 bits are rounded; the values were computed from what they are rounded from.
TEST_CASE("rematerialize: values follow bit for bit from what was saved, or are kept") {
  const std::vector<std::string> names{"x", "gamma", "beta", "mean", "var"};
  const Symbol y = sym.erf(sym.BatchNorm(sym.var("x"), sym.var("gamma"), sym.var("beta"), sym.var("mean"),
                                         sym.var("var"), {.fix_gamma = false}));
  const Symbol dropped = sym.erf(sym.Dropout(sym.var("x"), {.p = 0.3}));
  const auto rematerialized = [](const Graph& g) { return passes::rematerialize(g, true, 4); };
  for (DType data : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    for (DType other : {data, DType::float32}) {
      if (data == DType::float64 && other != data) continue;
      INFO(name_of(data) << ", " << name_of(other));
      std::vector<NDArray> inputs{numbers({7, 3, 5}, 1).astype(data)};
      for (uint32_t i = 1; i < 5; ++i) inputs.push_back(nd.abs(numbers({3}, i)).astype(other));
      const Graph before = with_gradient(traced(y, names, inputs), {true, true, true, false, false});
      const Graph after = check_pass(rematerialized, before, inputs, true, {.training = true});
      CHECK(count(after, "_rematerialize_batch_norm") == (size_of(other) > 2 ? 1 : 0));
    }
    const Graph before = with_gradient(traced(dropped, {"x"}, {numbers({8, 6}).astype(data)}), {true});
    CHECK(count(rematerialized(before), "broadcast_mul") ==
          count(before, "broadcast_mul") + (size_of(data) > 2 ? 1 : 0));
  }
}

TEST_CASE("rematerialize: a value whose input is gone is kept") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  const std::vector<std::string> names{"x", "w", "v"};
  const std::vector<NDArray> inputs{numbers({8, 6}, 1), numbers({5, 6}, 2), numbers({4, 5}, 3)};
  // tanh's gradient reads its value: nobody needs what it was made of
  Symbol y = sym.FullyConnected(sym.tanh(sym.FullyConnected(x, w, {.num_hidden = 5})), v, {.num_hidden = 4});
  Graph before = with_gradient(traced(y, names, inputs), {true, true, true});
  CHECK(passes::rematerialize(before, true, 4).str() == before.str());
}

TEST_CASE("rematerialize: how far values build on each other is limited") {
  Symbol x = sym.var("x");
  Symbol y = x;
  for (int i = 0; i < 12; ++i) y = sym.sin(y * 1.5);  // each gradient reads what the sine was taken of
  const std::vector<NDArray> inputs{numbers({64}, 1)};
  Graph before = with_gradient(traced(y, {"x"}, inputs), {true});
  const auto repeated = [&](int depth) {
    Graph g = passes::rematerialize(before, true, depth);
    g.validate();
    return count(g, "sin") - count(before, "sin");
  };
  CHECK(repeated(1) > 0);
  CHECK(repeated(1) < repeated(4));
  CHECK(repeated(4) < repeated(16));
  CHECK(plan_memory(passes::rematerialize(before, true, 4)).arena_bytes < plan_memory(before).arena_bytes);
}

TEST_CASE("rematerialize: 300 random programs: the same bits, never more memory", "[unsanitized]") {
  size_t with_bytes = 0, without_bytes = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Symbol program = random_symbol(5 + int(seed % 30), seed);
    std::vector<NDArray> results[2];
    size_t bytes[2];
    for (bool mirror : {false, true}) {
      CachedGraph graph(program, data_names(2), {.exact = seed % 2 == 0, .mirror = mirror}, "random");
      std::vector<NDArray> inputs{numbers({4, 6}, seed + 1), numbers({4, 6}, seed + 2)};
      for (NDArray& a : inputs) a.attach_grad();
      std::vector<NDArray> out = autograd::record([&] { return call(graph, inputs); });
      std::vector<NDArray> heads = out;
      std::erase_if(heads, [](const NDArray& a) { return !autograd::wants_gradient(a); });  // made of constants alone
      autograd::backward(heads);
      results[mirror] = out;
      for (NDArray& a : inputs) results[mirror].push_back(a.grad());
      bytes[mirror] = graph.plan()->memory().arena_bytes;
    }
    for (size_t i = 0; i < results[0].size(); ++i) REQUIRE(same_bits(results[0][i], results[1][i]));
    REQUIRE(bytes[1] <= bytes[0]);
    without_bytes += bytes[0], with_bytes += bytes[1];
  }
  CHECK(with_bytes < without_bytes);
}

}  // namespace passes_rematerialize_test

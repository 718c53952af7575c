// Constant folding.
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_constants_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Graph fold(Graph g) { return passes::fold_constants(std::move(g), false); }

const Node& producer(const Graph& g, size_t output) { return g.nodes[g.outputs[output].node]; }

}  // namespace

TEST_CASE("fold_constants: what constants determine is computed once") {
  Symbol x = sym.var("x");
  Symbol c = sym.tanh(sym.array({1, 2, 3}) * 2) + sym.arange(3) * sym.ones({3});
  const std::vector<NDArray> inputs{numbers({3})};
  Graph before = traced(Symbol::group({x * c, sym.exp(c)}), {"x"}, inputs);
  Graph after = check_pass(fold, before, inputs, true);
  CHECK(operators(before) == 8);
  CHECK(operators(after) == 1);
  CHECK(same_bits(producer(after, 1).constant, nd.exp(nd.tanh(nd.array({1, 2, 3}) * 2) + nd.arange(3) * nd.ones({3}))));
}

TEST_CASE("fold_constants: gradients flow past constants") {
  Symbol x = sym.var("x");
  Symbol scale = sym.exp(sym.array({0.5f, 1, 2}));
  const std::vector<NDArray> inputs{numbers({2, 3})};
  Graph before = with_gradient(traced(sym.broadcast_mul(sym.tanh(x), scale), {"x"}, inputs), {true});
  Graph after = check_pass(fold, before, inputs, true);
  CHECK(count(before, "exp") == 1);
  CHECK(count(after, "exp") == 0);
}

TEST_CASE("fold_constants: views of constants share their memory, whatever their size") {
  Symbol x = sym.var("x");
  NDArray table = numbers({700, 500});
  Symbol view = sym.expand_dims(sym.reshape(Symbol::constant(table, "table"), {500, 700}), 0);
  const std::vector<NDArray> inputs{numbers({1, 1, 1})};
  Graph after = check_pass(fold, traced(sym.broadcast_add(x, view), {"x"}, inputs), inputs, true);
  CHECK(operators(after) == 1);
  bool found = false;
  for (const Node& n : after.nodes) {
    if (!n.constant.defined()) continue;
    found = true;
    CHECK(n.constant.shape() == Shape(1, 500, 700));
    CHECK(n.constant.ptr()->buffer == table.ptr()->buffer);
  }
  CHECK(found);
}

TEST_CASE("fold_constants: every output of an operator, other dtypes and nothing at all") {
  Symbol x = sym.var("x");
  auto parts = sym.split(sym.array(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, {}), 3, {.axis = 1});
  Symbol halves = sym.cast(sym.cast(parts[0], DType::float16) * 0.3, DType::float32);
  Symbol empty = sym.zeros({0, 3}) + 1;
  const std::vector<NDArray> inputs{numbers({2, 1})};
  Graph before = traced(Symbol::group({x * parts[2], halves, parts[1], empty}), {"x"}, inputs);
  Graph after = check_pass(fold, before, inputs, true);
  CHECK(operators(after) == 1);
  CHECK(producer(after, 2).constant.asvector<float>() == std::vector<float>{2, 5});
  CHECK(producer(after, 3).constant.shape() == Shape(0, 3));
}

TEST_CASE("fold_constants: never random numbers, large results or what fails") {
  Symbol x = sym.var("x");
  const std::vector<NDArray> inputs{numbers({1})};
  auto left = [&](const Symbol& s) { return operators(fold(traced(x + s, {"x"}, inputs))) - 1; };
  CHECK(left(sym.random_uniform({3}) * 2) == 2);
  CHECK(left(sym.shuffle(sym.array({1, 2, 3}))) == 1);
  CHECK(left(sym.Dropout(sym.array({1, 2, 3}), {.mode = DropoutMode::always})) == 1);
  CHECK(left(sym.Dropout(sym.array({1, 2, 3}), {})) == 1);
  CHECK(left(sym.LeakyReLU(sym.array({1, 2, 3}), {.act_type = LeakyType::rrelu})) == 1);
  CHECK(left(sym.zeros({1 << 18})) == 0);  // 1 MB
  CHECK(left(sym.zeros({(1 << 18) + 1})) == 1);
  CHECK(left(sym.sum(sym.zeros({(1 << 18) + 1}))) == 2);
  CHECK(left(x * 2) == 1);

  // a kernel that throws does so when the plan runs, as it would imperatively
  Symbol bad = fails_on_nan(sym.log(sym.array({-1})));
  CHECK(left(bad) == 1);
  CachedGraph graph(x + bad, {"x"}, {}, "bad");
  std::vector<NDArray> out = call(graph, inputs);
  CHECK_THROWS_WITH(out[0].wait_to_read(), Contains("[_test_fails_on_nan] NaN"));
}

TEST_CASE("fold_constants: a constant that is updated, and what reads it, stay while it is") {
  Symbol x = sym.var("x"), g = sym.var("g");
  Symbol mean = Symbol::constant(nd.zeros({2}), "mean");
  Symbol y = sym.BatchNorm(x, g, g, mean, sym.ones({2}), {});
  const std::vector<NDArray> inputs{numbers({4, 2}), nd.ones({2})};
  Graph before = traced(Symbol::group({y, sym.reshape(mean, {1, 2}) * 2}), {"x", "g"}, inputs);
  Graph training = passes::fold_constants(before, true);
  CHECK(count(training, "_mul_scalar") == 1);
  CHECK(count(training, "_ones") == 1);
  Graph predicting = passes::fold_constants(before, false);
  CHECK(count(predicting, "_mul_scalar") == 0);
  CHECK(count(predicting, "_ones") == 0);
}

TEST_CASE("fold_constants: plans that are exact fold too and keep every bit") {
  Symbol x = sym.var("x");
  auto program = [](auto F, const auto& a) {
    auto angles = F.reshape(F.arange(6), {6, 1}) / F.exp(F.reshape(F.arange(4), {1, 4}) * 0.7);
    return a * F.sin(angles) + F.cos(angles);
  };
  CachedGraph graph(program(sym, x), {"x"}, {.exact = true}, "angles");
  NDArray a = numbers({6, 4});
  a.attach_grad();
  NDArray planned = autograd::record([&] { return call(graph, {a})[0]; });
  planned.backward();
  NDArray slope = a.grad().copy();
  NDArray imperative = autograd::record([&] { return program(nd, a); });
  imperative.backward();
  CHECK(same_bits(planned, imperative));
  CHECK(same_bits(slope, a.grad()));
  const Graph& g = graph.plan()->graph();
  CHECK(count(g, "sin") + count(g, "cos") + count(g, "exp") == 0);
}

}  // namespace passes_constants_test

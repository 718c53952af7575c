// The backward half of a graph.
#include "kaon/graph/ir/gradient.h"

#include <algorithm>

#include "kaon/tests/graph/support.h"

namespace gradient_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {
Graph make(const Symbol& s, const std::vector<std::string>& names, const Shape& shape) {
  Graph g = Graph::from_symbol(s, names);
  std::vector<TensorMeta> metas(names.size(), TensorMeta{shape, DType::float32});
  infer_graph(g, metas);
  return g;
}
size_t count(const Graph& g, std::string_view op, Phase phase) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(),
                              [&](const Node& n) { return n.op && n.op->name() == op && n.phase == phase; }));
}
}  // namespace

TEST_CASE("gradient: one head per output comes in, one gradient per wanted input goes out") {
  Symbol x = sym.var("x"), y = sym.var("y");
  Graph g = with_gradient(make(Symbol::group({sym.exp(x) * y, sym.tanh(y)}), {"x", "y"}, {3}), {true, true});
  g.validate();
  CHECK(g.inputs.size() == 4);
  CHECK(g.num_forward_outputs == 2);
  CHECK(g.outputs.size() == 4);
  CHECK(count(g, "exp", Phase::backward) == 0);  // its output is used again
  for (size_t i = 2; i < 4; ++i) CHECK(g.meta(g.outputs[i]).shape == Shape(3));
}

TEST_CASE("gradient: nothing is computed that nobody wants") {
  Symbol x = sym.var("x"), y = sym.var("y");
  Symbol z = sym.tanh(x) * sym.sigmoid(y);
  Graph both = with_gradient(make(z, {"x", "y"}, {3}), {true, true});
  Graph one = with_gradient(make(z, {"x", "y"}, {3}), {true, false});
  CHECK(one.outputs.size() == 2);
  CHECK(one.nodes.size() < both.nodes.size());
  CHECK(count(both, "_backward_sigmoid", Phase::backward) == 1);
  CHECK(count(one, "_backward_sigmoid", Phase::backward) == 0);
}

TEST_CASE("gradient: where none flows it is zero") {
  Symbol x = sym.var("x");
  Graph g = with_gradient(make(sym.BlockGrad(x) * 2, {"x"}, {3}), {true});
  CHECK(g.outputs.size() == 2);
  CHECK(g.meta(g.outputs[1]).shape == Shape(3));
  CachedGraph graph(sym.BlockGrad(x) * 2, {"x"}, {}, "zero");
  NDArray a = nd.ones({3});
  a.attach_grad();
  a.grad().assign(7);
  autograd::record([&] { return call(graph, {a})[0]; }).backward();
  CHECK(floats(a.grad()) == std::vector<float>(3, 0));
}

TEST_CASE("gradient: the thread's mode is as before, also after an error") {
  Symbol x = sym.var("x");
  NDArray a = nd.ones({3});
  a.attach_grad();
  autograd::record([&] {
    CachedGraph graph(sym.tanh(x), {"x"}, {}, "mode");
    call(graph, {a});
    CHECK(autograd::is_recording());
    CHECK(thread_context().interceptor == autograd::tape());
  });
}

TEST_CASE("gradient: test_grad_graph_change: outputs without a gradient among those with one") {
  auto program = [](auto F, const auto& array, const auto& index) {
    return std::vector{F.take(array, index), F.square(index)};
  };
  CachedGraph graph(Symbol::group(program(sym, sym.var("array"), sym.var("index"))), {"array", "index"},
                    {.exact = true}, "take");
  NDArray array = numbers({4, 3}), index = nd.array({1, 3, 1});
  array.attach_grad();
  NDArray row = autograd::record([&] { return call(graph, {array, index})[0]; });
  row.backward();
  NDArray got = array.grad().copy();
  autograd::record([&] { return program(nd, array, index)[0]; }).backward();
  CHECK(same_bits(got, array.grad()));
}

TEST_CASE("gradient: none flows through integers, planned or not") {
  auto program = [](auto F, const auto& x) { return F.cast(F.cast(x, DType::int32), DType::float32) + x * 0.5; };
  CachedGraph graph(program(sym, sym.var("data")), {"data"}, {.exact = true}, "integers");
  for (bool planned : {false, true}) {
    NDArray x = nd.array({1.5, 2.5});
    x.attach_grad();
    NDArray y = autograd::record([&] { return planned ? call(graph, {x})[0] : program(nd, x); });
    y.backward(nd.array({1, 4}));
    CHECK(floats(y) == std::vector<float>{1.75, 3.25});
    CHECK(floats(x.grad()) == std::vector<float>{0.5, 2});
  }
}

}  // namespace gradient_test

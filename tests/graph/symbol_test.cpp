#include "kaon/graph/symbol.h"

#include <atomic>
#include <thread>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/op_def.h"
#include "kaon/tests/graph/support.h"

namespace symbol_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;
using Names_ = std::vector<std::string>;

namespace {
// The value of a symbol for given data.
NDArray eval(const Symbol& s, const NDArray& data) {
  CachedGraph graph(s, {"data"}, {.exact = true}, "eval");
  return call(graph, {data})[0];
}
}  // namespace

TEST_CASE("symbol: arguments, outputs and internals, depth first, missing inputs made") {
  Symbol x = sym.var("data");
  Symbol fc1 = sym.as("fc1").FullyConnected(x, sym.var("w"), {.num_hidden = 10});
  Symbol y = sym.as("act").relu(fc1);
  CHECK(y.list_arguments() == Names_{"data", "w"});
  CHECK(y.list_outputs() == Names_{"act_output"});
  CHECK(y.get_internals().list_outputs() == Names_{"data", "w", "fc1_output", "act_output"});
  CHECK(fmt::format("{}", y) == "<Symbol act>");
  CHECK(to_string(Symbol::group({y, fc1})) == "<Symbol group [act, fc1]>");
  op::FullyConnected op{.num_hidden = 10};
  const Symbol* inputs[] = {&x};
  Symbol made;
  Symbol::apply(op::FullyConnected::def, &op, inputs, std::span(&made, 1), std::source_location::current(), "fc");
  CHECK(made.list_arguments() == Names_{"data", "fc_weight", "fc_bias"});
}

TEST_CASE("symbol: var of a name is a variable, of a Symbol its variance, as of an array") {
  const auto spread = [](auto F, const auto& x) { return F.var(x, {.axis = {1}}) + F.var(x, 1, true).reshape({-1}); };
  const Symbol x = sym.var("x", {2, 3});
  CHECK(x.list_arguments() == Names_{"x"});
  const Symbol y = spread(sym, x);
  CHECK(y.list_arguments() == Names_{"x"});
  const NDArray values = nd.array({{1, 2, 3}, {0, 0, 6}});
  CachedGraph graph(y, {"x"}, {}, "spread");
  CHECK(call(graph, {values})[0].asvector<float>() == spread(nd, values).asvector<float>());
}

TEST_CASE("symbol: running statistics are auxiliary states") {
  Symbol y =
      sym.as("bn").BatchNorm(sym.var("data"), sym.var("gamma"), sym.var("beta"), sym.var("mean"), sym.var("var"), {});
  CHECK(y.list_arguments() == Names_{"data", "gamma", "beta"});
  CHECK(y.list_auxiliary_states() == Names_{"mean", "var"});
  CHECK(y.list_inputs() == Names_{"data", "gamma", "beta", "mean", "var"});
  auto shapes = y.infer_shape({{"data", {2, 3, 4, 5}}});
  CHECK(shapes.arguments == std::vector<Shape>{{2, 3, 4, 5}, {3}, {3}});
  CHECK(shapes.auxiliary_states == std::vector<Shape>{{3}, {3}});
  CHECK(shapes.outputs == std::vector<Shape>{{2, 3, 4, 5}});
}

TEST_CASE("symbol: infer_shape completes weights and keeps the symbol as it was") {
  Symbol y = sym.FullyConnected(sym.var("data"), sym.var("w"), sym.var("b"), {.num_hidden = 128});
  auto shapes = y.infer_shape({{"data", {10, 784}}});
  CHECK(shapes.arguments == std::vector<Shape>{{10, 784}, {128, 784}, {128}});
  CHECK_THROWS_AS(y.shape(), TraceError);
  CHECK(y.infer_shape({{"data", {3, 5}}}).arguments[1] == Shape(128, 5));
  CHECK_THROWS_WITH(y.infer_shape({}), Contains("'data'") && Contains("does not follow"));
  CHECK_THROWS_AS(y.infer_shape({{"nothing", {1}}}), ValueError);
  CHECK_THROWS_AS(y.infer_shape({{"data", {10, 784}}, {"w", {128, 783}}}), ShapeError);
}

TEST_CASE("symbol: shapes are known while composing when the inputs' are") {
  Symbol x = sym.var("data", {4, 3});
  CHECK(sym.dot(x, sym.var("w", {3, 7})).shape() == Shape(4, 7));
  CHECK((x + 1).ndim() == 2);
  CHECK((x * 2).size() == 12);
  CHECK_THROWS_WITH(sym.relu(sym.var("unknown")).shape(), Contains("sym.var(\"data\""));
  CHECK_THROWS_WITH(sym.dot(x, sym.var("w", {4, 7})), Contains("in node dot") && Contains("symbol_test.cpp"));
}

TEST_CASE("symbol: arithmetic broadcasts, with arrays and numbers, as on NDArrays") {
  NDArray a = numbers({2, 3}, 1), row = numbers({1, 3}, 2);
  Symbol x = sym.var("data"), r = sym.var("row");
  CachedGraph all(Symbol::group({x + r, x - r, 2 - x, x / 3, -r, x > r, 1 / x, x % 0.3, x == x}), {"data", "row"},
                  {.exact = true}, "all");
  auto got = call(all, {a, row});
  std::vector<NDArray> expected{a + row, a - row, 2 - a, a / 3, -row, a > row, 1 / a, a % 0.3, a == a};
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("expression " << i);
    CHECK(same_bits(got[i], expected[i]));
  }
}

TEST_CASE("symbol: [] slices, also where the shape is not known; outputs are taken by output()") {
  NDArray a = numbers({3, 4});
  for (const Symbol& x : {sym.var("data", {3, 4}), sym.var("data")}) {
    CHECK(same_bits(eval(x[0], a), a[0]));
    CHECK(same_bits(eval(x[-1], a), a[-1]));
    CHECK(same_bits(eval(x[-3], a), a[-3]));
    for (auto [begin, end] : {std::pair(1, 3), {-9, 2}, {2, 9}, {2, 1}, {-1, -2}}) {
      CHECK(same_bits(eval(x.slice(begin, end), a), a.slice(begin, end)));
    }
    CHECK(same_bits(eval(x.reshape({0, 2, -1}), a), a.reshape({0, 2, -1})));
  }
  Symbol one = sym.var("data", {5});
  CHECK(same_bits(eval(one[2], numbers({5})), numbers({5})[2]));
  auto parts = sym.split(sym.var("data", {3, 4}), 2, {.axis = 1});
  CHECK_THROWS_WITH(parts[1][0], Contains(".output(i)"));
  Symbol both = Symbol::group(parts);
  CHECK(both.num_outputs() == 2);
  CHECK(both.output(1).shape() == Shape(3, 2));
  CHECK_THROWS_AS(both.output(2), IndexError);
  CHECK_THROWS_WITH(both.shape(), Contains("group of 2"));
  CHECK_THROWS_AS(Symbol().shape(), ValueError);
}

TEST_CASE("symbol: in-place forms give the handle a new value, as the array would have it") {
  auto program = [](auto F, auto x, auto row) {
    auto kept = x;
    x = x * 2;
    auto y = x;
    y += row;
    y *= 3;
    y -= 1;
    y /= 7;
    y %= 0.5;
    auto z = F.zeros_like(x);
    z.slice_assign({0, 1}, {1, 3}, 5);
    z.slice_assign({1}, {2}, row);
    auto w = F.ones_like(x);
    w.assign(row);
    auto v = F.ones_like(x);
    v.assign(0.25);
    return std::vector{kept, x + 0, y, z, w, v};
  };
  NDArray a = numbers({2, 3}, 1), row = numbers({3}, 2);
  CachedGraph graph(Symbol::group(program(sym, sym.var("data", {2, 3}), sym.var("row", {3}))), {"data", "row"},
                    {.exact = true}, "inplace");
  auto got = call(graph, {a, row});
  auto expected = program(nd, a, row);
  for (size_t i = 0; i < got.size(); ++i) {
    if (i == 1) continue;  // on arrays y is x, so that x has changed with it
    INFO("value " << i);
    CHECK(same_bits(got[i], expected[i]));
  }
  CHECK(same_bits(got[1], a * 2));
}

TEST_CASE("symbol: assign converts to the dtype of the target") {
  Symbol x = sym.cast(sym.var("data", {3}), DType::float64);
  x.assign(sym.var("data", {3}) * 2);
  NDArray y = eval(x, nd.array({1, 2, 3}));
  CHECK(y.dtype() == DType::float64);
  CHECK(floats(y) == std::vector<float>{2, 4, 6});
}

TEST_CASE("symbol: copy and detach are there on both") {
  NDArray a = numbers({3});
  a.attach_grad();
  Symbol x = sym.var("data", {3});
  CachedGraph graph(x.copy() * x.detach(), {"data"}, {.exact = true}, "detach");
  autograd::record([&] { return call(graph, {a})[0]; }).backward();
  CHECK(same_bits(a.grad(), a));
}

struct ReadsInItsGradient {
  static constexpr OpTraits traits{.name = "_test_reads", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const { g.set(0, g.head() * g.input(0).asvector<float>()[0]); }
};
void run_cpu(const ReadsInItsGradient&, KernelContext&) {}
const OpDef ReadsInItsGradient::def = make_op_def<ReadsInItsGradient>();

template <class A>
concept ReadsValues = requires(const A& a) {
  a.template asscalar<float>();
}
|| requires(const A& a) { a.template asvector<float>(); };
template <class A>
concept AssignsToRow = requires(A& a, const A& b) {
  a[0] = b;
};

TEST_CASE("users row 27: values cannot be read from a Symbol, rows of an array not be assigned to") {
  static_assert(ReadsValues<NDArray> && !ReadsValues<Symbol>);
  static_assert(!AssignsToRow<NDArray>);
  const ReadsInItsGradient op{};
  Symbol x = sym.var("data", {2}), y;
  const Symbol* inputs[] = {&x};
  Symbol::apply(ReadsInItsGradient::def, &op, inputs, std::span(&y, 1), std::source_location::current(), "r");
  CachedGraph graph(y, {"data"}, {}, "reads");
  NDArray a = nd.ones({2});
  a.attach_grad();
  CHECK_THROWS_AS(autograd::record([&] { return call(graph, {a}); }), TraceError);
  CHECK(thread_context().interceptor == nullptr);
}

TEST_CASE("symbol: names count per scope; scopes nest") {
  {
    NameScope outer("net_");
    CHECK(sym.relu(sym.var("data")).name() == "net_relu0");
    CHECK(sym.relu(sym.var("data")).name() == "net_relu1");
    {
      NameScope inner("net_fc_");
      CHECK(sym.relu(sym.var("data")).name() == "net_fc_relu0");
      CHECK(sym.as("fwd").relu(sym.var("data")).name() == "net_fc_fwd");
    }
    CHECK((sym.var("data") + 1).name() == "net_plus_scalar0");
    CHECK(sym.relu(sym.var("data")).name() == "net_relu2");
  }
  CHECK(sym.relu(sym.var("data")).name() != sym.relu(sym.var("data")).name());
}

TEST_CASE("symbol: compose puts a program on other inputs and leaves it as it is") {
  Symbol program = sym.as("p").tanh(sym.var("data")) * sym.var("w");
  Symbol on = compose(program, {{"data", sym.as("q").exp(sym.var("x", {3}))}});
  CHECK(on.list_arguments() == Names_{"x", "w"});
  CHECK(program.list_arguments() == Names_{"data", "w"});
  CachedGraph graph(on, {"x", "w"}, {.exact = true}, "composed");
  NDArray x = numbers({3}, 1), w = numbers({3}, 2);
  CHECK(same_bits(call(graph, {x, w})[0], nd.tanh(nd.exp(x)) * w));
}

TEST_CASE("symbol: constants become variables for files") {
  Symbol y = sym.var("data") + sym.array({1, 2, 3});
  CHECK(y.list_arguments() == Names_{"data"});
  auto [program, values] = constants_as_variables(y);
  REQUIRE(values.size() == 1);
  CHECK(program.list_arguments() == Names_{"data", values[0].first});
  CHECK(floats(values[0].second) == std::vector<float>{1, 2, 3});
  CHECK(floats(eval(y, nd.zeros({3}))) == std::vector<float>{1, 2, 3});
}

TEST_CASE("symbol: the watch sees shape() and dtype() and nothing else") {
  Symbol x = sym.var("data", {3});
  SymbolShapeWatch outer;
  {
    SymbolShapeWatch inner;
    Symbol y = sym.tanh(x) + x * 2;
    y += x[0];
    y.slice_assign({0}, {1}, 2);
    y.assign(1);
    CHECK_FALSE(inner.was_read());
    (void)y.shape();
    CHECK(inner.was_read());
  }
  CHECK(outer.was_read());
  SymbolShapeWatch other;
  (void)x.dtype();
  CHECK(other.was_read());
  SymbolShapeWatch writes;
  Symbol z = sym.zeros_like(x);
  z.assign(x);  // which converts where the dtypes differ
  CHECK(writes.was_read());
}

TEST_CASE("symbol: a chain of 200000 nodes is listed, planned and freed", "[arithmetic][unsanitized]") {
  Symbol x = sym.var("data", {1});
  for (int i = 0; i < 200000; ++i) x = x + 1;
  CHECK(x.list_arguments() == Names_{"data"});
  CHECK(eval(x, nd.zeros({1})).asscalar<float>() == 200000);
}

TEST_CASE("symbol: one program takes rows of arrays of any number of dimensions") {
  for (const Shape& traced : {Shape(3), Shape(3, 4), Shape::unknown()}) {
    CachedGraph graph(sym.var("data", traced)[1], {"data"}, {}, "row");
    for (const Shape& s : {Shape(3), Shape(3, 4), Shape(2, 1, 5), Shape(2, 1)}) {
      NDArray x = numbers(s);
      CHECK(same_bits(call(graph, {x})[0], x[1]));
    }
  }
}

TEST_CASE("symbol: threads may infer shapes of one symbol at once; an error names the node") {
  Symbol x = sym.var("data");
  for (int i = 0; i < 20; ++i) {
    std::string name = "layer" + std::to_string(i);
    x = sym.as(name).FullyConnected(x, sym.var(name + "_weight"), {.num_hidden = 8});
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        auto shapes = x.infer_shape({{"data", Shape(t, 3 * t)}});
        wrong += shapes.outputs[0] != Shape(t, 8) || shapes.arguments[1] != Shape(8, 3 * t);
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK_THROWS_WITH(x.infer_shape({{"data", Shape(2, 3)}, {"layer1_weight", Shape(8, 7)}}), Contains("in node layer1"));
}

TEST_CASE("symbol: inputs beyond the named ones are not made up") {
  const op::AddN op{.num_args = 20};
  CHECK_THROWS_WITH(sym.call(op, sym.var("x")), Contains("takes 20 inputs") && Contains("got 1"));
}

}  // namespace symbol_test

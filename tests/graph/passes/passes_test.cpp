// Passes that drop, merge and copy nodes, the layout pass, and the pipeline.
#include "kaon/tests/graph/passes/passes_support.h"

#include <cmath>

namespace passes_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Graph make(const Symbol& s, std::vector<std::string> names, const Shape& shape) {
  return traced(s, names, std::vector<NDArray>(names.size(), nd.zeros(shape)));
}

}  // namespace

TEST_CASE("passes: test_eliminate_common_expr") {
  Symbol a = sym.var("a"), b = sym.var("b"), c = sym.var("c"), d = sym.var("d");
  auto saved = [&](const Symbol& s) {
    Graph g = make(s, {"a", "b", "c", "d"}, {3});
    size_t before = operators(g);
    g = passes::common_subexpressions(std::move(g), true);
    g.validate();
    return before - operators(g);
  };
  CHECK(saved((a + b) + (a + b)) == 1);
  CHECK(saved(((a + b) + c) + ((a + b) + c)) == 2);
  CHECK(saved((a + 1) + (a + 2)) == 0);
  CHECK(saved(Symbol::group({a * d, a * d})) == 1);
  CHECK(saved(Symbol::group({a * d + b, a * d + b})) == 2);
  CHECK(saved(Symbol::group({a * d + b, a * d + c})) == 1);
  CHECK(saved(a / 0.0 + a / -0.0) == 0);  // infinities of two signs
  CHECK(saved(a * NAN + a * NAN) == 1);
  CHECK(saved(sym.Dropout(a, {}) + sym.Dropout(a, {})) == 0);  // two draws
  CHECK(saved(sym.BatchNorm(a, b, c, a, d, {.axis = 0}) + sym.BatchNorm(a, b, c, a, d, {.axis = 0})) ==
        0);  // two updates
}

TEST_CASE("passes: merged outputs are still arrays of their own") {
  Symbol a = sym.var("a"), d = sym.var("d");
  Graph g = make(Symbol::group({a * d, a * d}), {"a", "d"}, {3});
  g = passes::own_outputs(passes::common_subexpressions(std::move(g), true));
  CHECK(g.outputs[0] != g.outputs[1]);
  CHECK(count(g, "_copy") == 1);
  CachedGraph graph(Symbol::group({a * d, a * d}), {"a", "d"}, {}, "twice");
  NDArray x = numbers({3}, 1), y = numbers({3}, 2);
  auto out = call(graph, {x, y});
  out[0] += 1;
  CHECK(same_bits(out[1], x * y));
}

TEST_CASE("passes: numbers that differ in the sign of zero alone stay two, in plans and in fused programs") {
  const NDArray x = nd.array({1, -2});
  auto both = [](auto F, auto a) { return F.concat({.dim = 0}, F.relu(a / 0.0), F.relu(a / -0.0)); };
  CachedGraph graph(both(sym, sym.var("a")), {"a"}, {}, "signs");
  CHECK(same_bits(call(graph, {x})[0], both(nd, x)));
  CHECK(both(nd, x).asvector<float>() == std::vector<float>{INFINITY, 0, 0, INFINITY});
}

TEST_CASE("passes: own_outputs copies inputs, constants, views and repetitions, nothing else") {
  Symbol a = sym.var("a");
  Symbol r = sym.relu(a);
  Graph g = passes::own_outputs(
      make(Symbol::group({r, a, sym.array({1, 2}), sym.reshape(r, {3, 1}), r, sym.tanh(r)}), {"a"}, {3}));
  CHECK(count(g, "_copy") == 4);
  g.validate();
  // what a backward returns it computes itself, were it a copy of the forward's value
  Graph halves = make(Symbol::group({sym.tanh(r), r}), {"a"}, {3});
  halves.num_forward_outputs = 1;
  halves = passes::own_outputs(std::move(halves));
  REQUIRE(count(halves, "_copy") == 1);
  CHECK(halves.nodes[halves.outputs[1].node].phase == Phase::backward);
}

TEST_CASE("passes: dead code goes, updates of statistics stay") {
  Symbol a = sym.var("a"), b = sym.var("b"), c = sym.var("c"), m = sym.var("m"), v = sym.var("v");
  Symbol kept = sym.BatchNorm(a, b, c, m, v, {.axis = 0});
  Graph g = make(Symbol::group({sym.tanh(a), sym.exp(a), kept}), {"a", "b", "c", "m", "v"}, {3});
  g.outputs.resize(1);
  g.num_forward_outputs = 1;
  Graph predicting = passes::dead_code(g, false);
  g = passes::dead_code(std::move(g), true);
  CHECK(count(g, "tanh") == 1);
  CHECK(count(g, "exp") == 0);
  CHECK(count(g, "BatchNorm") == 1);
  CHECK(g.inputs.size() == 5);
  CHECK(operators(predicting) == 1);  // nothing is updated there
  CHECK(predicting.inputs.size() == 5);
}

TEST_CASE("passes: two equal calls of a net with BatchNorm are one in prediction, two updates in training") {
  std::vector<Symbol> s;
  for (const char* name : {"x", "g", "b", "m", "v"}) s.push_back(sym.var(name));
  Symbol a = sym.tanh(sym.BatchNorm(s[0], s[1], s[2], s[3], s[4], {}));
  Symbol b = sym.tanh(sym.BatchNorm(s[0], s[1], s[2], s[3], s[4], {}));
  Graph g = traced(a + b, {"x", "g", "b", "m", "v"},
                   {numbers({3, 3}), nd.ones({3}), nd.ones({3}), nd.ones({3}), nd.ones({3})});
  CHECK(operators(passes::common_subexpressions(g, false)) == 3);
  CHECK(operators(passes::common_subexpressions(g, true)) == 5);
}

TEST_CASE("passes: equal output layers have a gradient each") {
  const auto both = [](auto F, const auto& x, const auto& label, const auto& classes) {
    using A = std::decay_t<decltype(x)>;
    return std::vector<A>{F.LogisticRegressionOutput(x, label),
                          F.LogisticRegressionOutput(x, label),
                          F.SoftmaxOutput(x, classes),
                          F.SoftmaxOutput(x, classes),
                          F.MakeLoss(x),
                          F.MakeLoss(x)};
  };
  const NDArray label = numbers({3, 2}, 2), classes = nd.array({1, 0, 1});
  NDArray x = numbers({3, 2});
  x.attach_grad();
  autograd::backward(autograd::record([&] { return both(nd, x, label, classes); }));
  const std::vector<float> expected = floats(x.grad());
  CachedGraph graph(Symbol::group(both(sym, sym.var("x"), sym.var("label"), sym.var("classes"))),
                    {"x", "label", "classes"}, {}, "program");
  for (int time = 0; time < 2; ++time) {
    autograd::backward(autograd::record([&] { return call(graph, {x, label, classes}); }));
    const std::vector<float> got = floats(x.grad());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]));
  }
}

// 1 + 2^-8 is not a bfloat16: the sum of two heads would be rounded before it is a float32.
TEST_CASE("passes: equal casts to 16 bits stay two where a gradient is taken") {
  NDArray x = numbers({3});
  x.attach_grad();
  const Symbol v = sym.var("x");
  const Symbol one = sym.cast(v, DType::bfloat16), two = sym.cast(v, DType::bfloat16);
  CachedGraph graph(Symbol::group({one, two}), {"x"}, {}, "program");
  for (int time = 0; time < 2; ++time) {
    const std::vector<NDArray> y = autograd::record([&] { return call(graph, {x}); });
    autograd::backward(y, std::vector<NDArray>{nd.ones({3}, {.dtype = DType::bfloat16}),
                                               nd.full({3}, 0x1p-8, {.dtype = DType::bfloat16})});
    CHECK(floats(x.grad()) == std::vector<float>(3, 1 + 0x1p-8f));
  }
  int casts = 0;  // the calls themselves are one
  for (const Node& n : graph.plan()->graph().nodes) casts += n.op == &op::Cast::def && n.phase == Phase::forward;
  CHECK(casts == 1);
}

TEST_CASE("passes: Dropout goes in prediction unless it is always on") {
  Symbol a = sym.var("a");
  Symbol s = sym.Dropout(sym.Dropout(sym.tanh(a), {}), {.mode = DropoutMode::always});
  CHECK(count(passes::drop_dropout(make(s, {"a"}, {3}), true), "Dropout") == 2);
  Graph g = passes::drop_dropout(make(s, {"a"}, {3}), false);
  CHECK(count(g, "Dropout") == 1);
  g.validate();
  CachedGraph graph(s, {"a"}, {}, "always");
  NDArray x = nd.ones({1000});
  NDArray y = call(graph, {x})[0];
  CHECK(nd.min(y).asscalar<float>() == 0);
  CHECK_FALSE(same_bits(y, call(graph, {x})[0]));  // new numbers each time
}

TEST_CASE("passes: an activation joins the layer that it alone reads") {
  Symbol x = sym.var("x"), w = sym.var("w");
  auto layer = [&](int64_t n) { return sym.FullyConnected(x, w, {.num_hidden = int(n)}); };
  auto fused = [&](const Symbol& s) {
    Graph g = Graph::from_symbol(s, {"x", "w"});
    TensorMeta metas[] = {{Shape(2, 3), DType::float32}, {Shape(4, 3), DType::float32}};
    infer_graph(g, metas);
    size_t before = operators(g);
    g = passes::fuse_activation(std::move(g), false);
    g.validate();
    return before - operators(g);
  };
  CHECK(fused(sym.relu(layer(4))) == 1);
  CHECK(fused(sym.Activation(layer(4), {.act_type = ActivationType::relu})) == 1);
  CHECK(fused(sym.tanh(layer(4))) == 1);
  CHECK(fused(sym.Activation(layer(4), {.act_type = ActivationType::sigmoid})) == 1);
  CHECK(fused(sym.exp(layer(4))) == 0);
  CHECK(fused(sym.Activation(layer(4), {.act_type = ActivationType::softsign})) == 0);
  Symbol shared = layer(4);
  CHECK(fused(Symbol::group({sym.relu(shared), shared})) == 0);
  CHECK(fused(sym.relu(sym.relu(layer(4)))) == 1);
  CachedGraph graph(sym.relu(layer(4)), {"x", "w"}, {}, "fused");
  NDArray a = numbers({2, 3}), b = numbers({4, 3}, 2);
  a.attach_grad();
  b.attach_grad();
  auto run = [&](bool planned) {
    NDArray y = autograd::record([&] {
      return planned ? call(graph, {a, b})[0] : nd.relu(nd.FullyConnected(a, b, {.num_hidden = 4}));
    });
    y.backward();
    return std::vector{y, a.grad().copy(), b.grad().copy()};
  };
  auto planned = run(true), imperative = run(false);
  for (size_t i = 0; i < 3; ++i) require_near(planned[i], imperative[i].asvector<double>(), 1e-5);
}

TEST_CASE("passes: images of many channels stay channels-last between convolutions, outputs never do") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  Symbol c1 = sym.Convolution(x, w, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16});
  Symbol p = sym.Pooling(sym.relu(c1), {.kernel = {2, 2}, .pool_type = PoolType::max, .stride = {2, 2}});
  Symbol c2 = sym.Convolution(p, v, {.kernel = {3, 3}, .num_filter = 18});
  Symbol program = Symbol::group({c2, p, sym.flatten(c2)});
  CachedGraph graph(program, {"x", "w", "v"}, {.static_alloc = true}, "conv");
  std::vector<NDArray> in{numbers({2, 16, 8, 8}, 1), numbers({16, 16, 3, 3}, 2), numbers({18, 16, 3, 3}, 3)};
  for (NDArray& a : in) a.attach_grad();
  auto imperative = [&] {
    NDArray i1 = nd.Convolution(in[0], in[1], {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16});
    NDArray ip = nd.Pooling(nd.relu(i1), {.kernel = {2, 2}, .pool_type = PoolType::max, .stride = {2, 2}});
    NDArray i2 = nd.Convolution(ip, in[2], {.kernel = {3, 3}, .num_filter = 18});
    return std::vector{i2, ip, nd.flatten(i2)};
  };
  auto run = [&](bool planned) {
    auto out = autograd::record([&] { return planned ? call(graph, in) : imperative(); });
    std::vector<NDArray> heads;
    for (size_t i = 0; i < out.size(); ++i) heads.push_back(numbers(out[i].shape(), 20 + uint32_t(i)));
    autograd::backward(out, heads);
    for (NDArray& a : in) out.push_back(a.grad().copy());
    return out;
  };
  auto expected = run(false);
  for (int time = 0; time < 2; ++time) {
    auto got = run(true);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("array " << i);
      require_near(got[i], expected[i].asvector<double>(), i < 3 ? 1e-4 : 1e-3);
    }
  }
  const Graph& g = graph.plan()->graph();
  size_t images = size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
    return !n.layouts.empty() && n.layouts[0] == Layout::channels_last;
  }));
  CHECK(images >= 4);
  for (ValueId v2 : g.outputs) CHECK(g.layout(v2) == Layout::row_major);
}

TEST_CASE("passes: the first convolution of a net brings a few channels into channels-last memory by itself") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  for (int channels : {1, 3, 4, 5}) {
    INFO(channels << " channels");
    Symbol first = sym.Convolution(x, w, {.kernel = {3, 3}, .num_filter = 16});
    Symbol pooled = sym.Pooling(sym.relu(first), {.kernel = {2, 2}, .stride = {2, 2}});
    Symbol second = sym.Convolution(pooled, v, {.kernel = {3, 3}, .num_filter = 20});
    const std::vector<NDArray> inputs{numbers({2, channels, 12, 12}, 1), numbers({16, channels, 3, 3}, 2),
                                      numbers({20, 16, 3, 3}, 3)};
    const Graph before = traced(second, {"x", "w", "v"}, inputs);
    const Graph after = check_pass(channels_last, before, inputs);
    check_pass(channels_last, with_gradient(before, {true, true, true}), inputs);
    CHECK(count(after, "_reorder") == (channels <= 4 ? 1 : 2));  // the output's; with 5 also before the second one
  }
}

TEST_CASE("passes: for a GPU the images that tensor cores take are channels last, those from outside too") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  Symbol pooled = sym.Pooling(sym.relu(sym.Convolution(x, w, {.kernel = {3, 3}, .num_filter = 6})),
                              {.kernel = {2, 2}, .stride = {2, 2}});
  Symbol y = sym.Convolution(pooled, v, {.kernel = {3, 3}, .num_filter = 5});
  for (DType t : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    INFO(name_of(t));
    const std::vector<NDArray> inputs{numbers({2, 3, 12, 12}, 1).astype(t), numbers({6, 3, 3, 3}, 2).astype(t),
                                      numbers({5, 6, 3, 3}, 3).astype(t)};
    const Graph before = with_gradient(traced(y, {"x", "w", "v"}, inputs), {true, true, true});
    const Graph after = passes::layouts(before, {.device = gpu(0)});
    const bool is_half = size_of(t) == 2;
    CHECK(count(after, "_reorder") == (is_half ? 4 : 0));  // the images, the result, its gradient, the images' gradient
    for (size_t i = 0; i < after.nodes.size(); ++i) {
      if (after.nodes[i].op && !after.nodes[i].op->name().starts_with("_")) {
        CHECK((after.layout({uint32_t(i), 0}) == Layout::channels_last) == is_half);
      }
    }
    for (ValueId out : after.outputs) CHECK(after.layout(out) == Layout::row_major);
  }
}

TEST_CASE("passes: what reads a value before and after its update is not merged") {
  auto program = [](auto F, const auto& x, const auto& g, const auto& b, const auto& m, const auto& v) {
    auto before = F.reshape(m, {1, 2}) * 2;
    auto y = F.BatchNorm(x, g, b, m, v, {});
    return std::vector{before, y, F.reshape(m, {1, 2}) * 2};
  };
  std::vector<Symbol> s;
  for (const char* name : {"x", "g", "b", "m", "v"}) s.push_back(sym.var(name));
  CachedGraph graph(Symbol::group(program(sym, s[0], s[1], s[2], s[3], s[4])), {"x", "g", "b", "m", "v"}, {},
                    "updated");
  auto inputs = [] {
    return std::vector<NDArray>{numbers({4, 2}), nd.ones({2}), nd.zeros({2}), nd.ones({2}), nd.ones({2})};
  };
  auto a = inputs(), b = inputs();
  autograd::train_mode([&] {
    auto planned = call(graph, a), imperative = program(nd, b[0], b[1], b[2], b[3], b[4]);
    for (size_t i = 0; i < 3; ++i) CHECK(same_bits(planned[i], imperative[i]));
    CHECK_FALSE(same_bits(planned[0], planned[2]));
  });
  CHECK(same_bits(a[3], b[3]));
}

TEST_CASE("passes: the pipeline runs in one order, exact plans without what rounds otherwise, and explains itself") {
  for (const passes::Pass& p : passes::pipeline()) {
    const std::string name = p.name;
    INFO(name);
    if (name == "fold_transposes" || name == "fold_batch_norm" || name == "fuse_sum" || name == "layouts") {
      CHECK_FALSE(p.in_exact);
    }
    if (name == "gradient" || name == "fold_constants" || name == "dead_code" || name == "own_outputs") {
      CHECK(p.in_exact);
    }
  }
  Symbol x = sym.var("x"), w = sym.var("w");
  Symbol y = sym.relu(sym.FullyConnected(sym.Dropout(x, {}), w, {.num_hidden = 3}));
  Graph g = make(y, {"x", "w"}, {3, 3});
  const std::string text = passes::explain(g, {});
  CHECK_THAT(text, Contains("--- as traced: 3 operators\n%0 = input()") &&
                       Contains("--- drop_dropout: 2 operators\n") && Contains("--- gradient: no change\n") &&
                       Contains("--- fuse_activation: 1 operators\n") &&
                       Contains("FullyConnected(%0, %1) {num_hidden=3, no_bias=True, __post_ops__=relu}") &&
                       Contains("--- fuse_kernels: not run: for GPUs\n"));
  const std::string in_exact = passes::explain(g, {.exact = true});
  CHECK_THAT(in_exact, !Contains("fuse_activation") && Contains("relu("));
}

TEST_CASE("passes: dump of a plan shows the graph before and after each") {
  Symbol x = sym.var("x"), w = sym.var("w");
  CachedGraph graph(sym.relu(sym.FullyConnected(x, w, {.num_hidden = 3})), {"x", "w"}, {}, "net");
  call(graph, {numbers({2, 3}), numbers({3, 3})});
  CHECK_THAT(graph.report()->dump(), Contains("--- as traced: 2 operators") &&
                                         Contains("--- fuse_activation: 1 operators") && Contains("arena"));
}

TEST_CASE("passes: dump of a plan names the kernels that ran and counts the reorders") {
  Symbol x = sym.var("x"), w = sym.var("w"), v = sym.var("v");
  Symbol y = sym.Convolution(x, w, {.kernel = {3, 3}, .num_filter = 32});
  Symbol z = sym.FullyConnected(sym.Pooling(y, {.kernel = {2, 2}, .stride = {2, 2}}), v, {.num_hidden = 7});
  CachedGraph graph(sym.softmax(z), {"x", "w", "v"}, {}, "net");
  const std::vector<NDArray> inputs{numbers({2, 16, 8, 8}, 1), numbers({32, 16, 3, 3}, 2), numbers({7, 288}, 3)};
  call(graph, inputs)[0].wait_to_read();
  const std::string text = graph.report()->dump();
  CHECK_THAT(text, Contains(" (Convolution): ") && Contains(" nhwc\n") && !Contains("(Convolution): own"));
  CHECK_THAT(text, Contains(" (softmax): own\n") && Contains(" (FullyConnected): ") &&
                       !Contains("(FullyConnected): own\n") && !Contains("not run yet"));
  CHECK_THAT(text, Contains("\n6 operators, 2 reorders of images, 0 more inside kernels\n"));

  const Graph traced_once = traced(z, {"x", "w", "v"}, inputs);
  const IntrusivePtr<ExecutionPlan> unused(new ExecutionPlan(traced_once, {}));
  CHECK_THAT(PlanReport(unused).dump(), Contains("(Convolution): not run yet\n"));
}

}  // namespace passes_test

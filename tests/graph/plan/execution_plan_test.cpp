// Planned execution equals the imperative one, bit for bit under {.exact = true}.
#include "kaon/graph/plan/execution_plan.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "kaon/engine/task.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/graph/support.h"

namespace execution_plan_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

struct Result {
  std::vector<NDArray> outputs, gradients;
};

// One recorded call with head gradients that differ per element.
template <class F>
Result run(F&& f, const std::vector<NDArray>& values) {
  std::vector<NDArray> inputs;
  for (const NDArray& v : values) {
    inputs.push_back(v.copy());
    inputs.back().attach_grad();
  }
  Result r;
  r.outputs = autograd::record([&] { return f(inputs); });
  std::vector<NDArray> heads, grads;
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    if (!autograd::wants_gradient(r.outputs[i])) continue;  // a constant
    heads.push_back(r.outputs[i]);
    grads.push_back(numbers(r.outputs[i].shape(), 77 + uint32_t(i)));
  }
  autograd::backward(heads, grads);
  for (size_t i = 0; i < values.size(); ++i) {
    r.gradients.push_back(inputs[i].grad());
    INFO("input " << i << " must not change");
    REQUIRE(same_bits(inputs[i], values[i]));
  }
  return r;
}

void require_same(const Result& a, const Result& b) {
  REQUIRE(a.outputs.size() == b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    INFO("output " << i);
    REQUIRE(same_bits(a.outputs[i], b.outputs[i]));
  }
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    INFO("gradient " << i);
    REQUIRE(same_bits(a.gradients[i], b.gradients[i]));
  }
}

// The same program imperatively and planned. F is called with nd and with sym.
template <class F>
void check_same(F&& f, const std::vector<NDArray>& values) {
  std::vector<Symbol> data;
  for (size_t i = 0; i < values.size(); ++i) data.push_back(sym.var("data" + std::to_string(i), values[i].shape()));
  for (bool static_alloc : {true, false}) {
    CachedGraph graph(Symbol::group(f(sym, data)), data_names(int(values.size())),
                      {.static_alloc = static_alloc, .exact = true}, "same");
    for (int time = 0; time < 2; ++time) {
      Result imperative = run([&](const std::vector<NDArray>& x) { return f(nd, x); }, values);
      Result planned = run([&](const std::vector<NDArray>& x) { return call(graph, x); }, values);
      require_same(planned, imperative);
      std::vector<NDArray> prediction = call(graph, values);
      for (size_t i = 0; i < prediction.size(); ++i) REQUIRE(same_bits(prediction[i], imperative.outputs[i]));
    }
  }
}

}  // namespace

TEST_CASE("users row 24: 500 random programs equal the imperative run bit for bit, inputs unchanged") {
  std::vector<NDArray> values{numbers({4, 6}, 1), numbers({4, 6}, 2)};
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    int steps = 3 + int(seed % 30);
    CachedGraph graph(random_symbol(steps, seed), data_names(2), {.static_alloc = seed % 2 == 0, .exact = true},
                      "random");
    Result planned = run([&](const std::vector<NDArray>& x) { return call(graph, x); }, values);
    Result imperative =
        run([&](const std::vector<NDArray>& x) { return random_program<NDArray>(nd, x, steps, seed); }, values);
    require_same(planned, imperative);
  }
}

TEST_CASE("execution plan: 100 random programs with the faster kernels are within the bounds") {
  std::vector<NDArray> values{numbers({4, 6}, 1), numbers({4, 6}, 2)};
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    CachedGraph graph(random_symbol(15, seed), data_names(2), {.static_alloc = true}, "random");
    Result planned = run([&](const std::vector<NDArray>& x) { return call(graph, x); }, values);
    Result imperative =
        run([&](const std::vector<NDArray>& x) { return random_program<NDArray>(nd, x, 15, seed); }, values);
    for (size_t i = 0; i < planned.outputs.size(); ++i) {
      require_near(planned.outputs[i], imperative.outputs[i].asvector<double>(), 1e-4);
    }
    for (size_t i = 0; i < planned.gradients.size(); ++i) {
      require_near(planned.gradients[i], imperative.gradients[i].asvector<double>(), 1e-3);
    }
  }
}

TEST_CASE("users row 25: inputs, constants, duplicates and views as outputs") {
  auto program = [](auto F, const auto& in) {
    using A = std::decay_t<decltype(in[0])>;
    const A &x = in[0], &y = in[1];
    A constant = F.array({1, 2, 3, 4}, {2, 2}), r = F.relu(x);
    return std::vector<A>{
        x, x, r, constant, r, F.reshape(r, {4}), F.flatten(x), x.slice(0, 1), F.reshape(constant, {4}), y * r};
  };
  check_same(program, {numbers({2, 2}, 1), numbers({2, 2}, 2)});
}

TEST_CASE("execution plan: the outputs are arrays of their own") {
  Symbol x = sym.var("data0", {2, 2});
  CachedGraph graph(Symbol::group({x, sym.reshape(x, {4}), x, Symbol::constant(nd.ones({2})), sym.tanh(x)}), {"data0"},
                    {.static_alloc = true}, "own");
  NDArray in = nd.ones({2, 2});
  auto outputs = call(graph, {in});
  for (NDArray& o : outputs) o += 1;
  CHECK(floats(in) == std::vector<float>(4, 1));
  CHECK(floats(outputs[0]) == std::vector<float>(4, 2));
  CHECK(floats(outputs[1]) == std::vector<float>(4, 2));
  CHECK(floats(call(graph, {in})[3]) == std::vector<float>(2, 1));
}

TEST_CASE("execution plan: identity and one array given twice (test_share_inputs_outputs)") {
  check_same([](auto, const auto& in) { return in; }, {numbers({3}, 1)});
  check_same([](auto, const auto& in) { return std::vector{in[0] + in[1]}; }, {numbers({3}, 1), numbers({3}, 2)});
  Symbol a = sym.var("data0", {3}), b = sym.var("data1", {3});
  CachedGraph graph(a * b + a, data_names(2), {.static_alloc = true, .exact = true}, "twice");
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();
  for (int time = 0; time < 3; ++time) {
    NDArray y = autograd::record([&] { return call(graph, {x, x})[0]; });
    y.backward();
    CHECK(floats(y) == std::vector<float>{2, 6, 12});
    CHECK(floats(x.grad()) == std::vector<float>{3, 5, 7});
  }
}

TEST_CASE("execution plan: an input that nothing uses, and one that only a dead node uses") {
  Symbol a = sym.var("data0", {3}), b = sym.var("data1", {3});
  Symbol dead = sym.zeros_like(sym.exp(b)) * 0;
  CachedGraph graph(a + 1, data_names(2), {.static_alloc = true}, "unused");
  CachedGraph zeros(a + dead, data_names(2), {.static_alloc = true}, "dead");
  NDArray x = nd.ones({3}), y = nd.ones({3});
  x.attach_grad();
  y.attach_grad();
  y.grad().assign(7);
  autograd::record([&] { return call(graph, {x, y})[0]; }).backward();
  CHECK(floats(x.grad()) == std::vector<float>(3, 1));
  CHECK(floats(y.grad()) == std::vector<float>(3, 0));
  CHECK(floats(call(zeros, {x, y})[0]) == std::vector<float>(3, 1));
}

TEST_CASE("execution plan: views of bigger arrays come in and are read only") {
  NDArray big = numbers({6, 4}, 3), before = big.copy();
  Symbol x = sym.var("data0", {2, 4});
  CachedGraph graph(sym.tanh(x) + 1, {"data0"}, {.static_alloc = true, .exact = true}, "view");
  NDArray part = big.slice(3, 5);
  CHECK(same_bits(call(graph, {part})[0], nd.tanh(part) + 1));
  CHECK(same_bits(big, before));
}

TEST_CASE("execution plan: random operators draw what the imperative run draws") {
  // Written in another order than the outputs use them.
  auto program = [](auto F, const auto& in) {
    auto a = F.Dropout(in[0], {.p = 0.5});
    auto b = F.Dropout(in[0], {.p = 0.3});
    auto c = F.Dropout(in[0], {.p = 0.3});
    return std::vector{b * 3 + a, c, F.random_uniform({3}, {})};
  };
  NDArray x = nd.ones({31});
  Symbol s = Symbol::group(program(sym, std::vector{sym.var("data0", {31})}));
  CachedGraph graph(s, {"data0"}, {.static_alloc = true, .exact = true}, "random");
  for (bool training : {true, false, true}) {
    std::vector<std::vector<NDArray>> results;
    for (bool planned : {false, true}) {
      kaon::random::seed(42);
      for (int time = 0; time < 3; ++time) {
        results.push_back(
            training  ? autograd::train_mode([&] { return planned ? call(graph, {x}) : program(nd, std::vector{x}); })
            : planned ? call(graph, {x})
                      : program(nd, std::vector{x}));
      }
      results.push_back({nd.random_uniform({5})});  // both have used the same numbers
    }
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < results[i].size(); ++k) CHECK(same_bits(results[i][k], results[4 + i][k]));
    }
    if (training) CHECK_FALSE(same_bits(results[0][0], results[1][0]));
  }
}

TEST_CASE("execution plan: backward twice with retain_graph, one operation each") {
  Engine engine;  // of its own: its operations are counted
  EngineScope scope(engine);
  Symbol x = sym.var("data0", {32, 8});
  Symbol y = x;
  for (int i = 0; i < 6; ++i) y = sym.tanh(y * 1.5) * sym.sigmoid(y) + x;
  for (bool static_alloc : {true, false}) {
    CachedGraph graph(y, {"data0"}, {.static_alloc = static_alloc, .exact = true}, "retain");
    NDArray in = numbers({32, 8});
    in.attach_grad();
    NDArray out = autograd::record([&] { return call(graph, {in})[0]; });
    NDArray head = numbers({32, 8}, 5);
    out.backward(head, true);
    NDArray first = in.grad().copy();
    for (bool retain : {true, true, false}) {
      in.grad().assign(0);
      uint64_t before = engine.stats().ops;
      out.backward(head, retain);
      CHECK(engine.stats().ops == before + 1);
      CHECK(same_bits(in.grad(), first));
    }
    CHECK_THROWS_AS(out.backward(head), StateError);
  }
}

TEST_CASE("execution plan: the head gradient may be the array that the gradient goes to") {
  Symbol x = sym.var("data0", {8});
  CachedGraph graph(sym.tanh(x) * sym.exp(x), {"data0"}, {.static_alloc = true, .exact = true}, "alias");
  NDArray in = numbers({8});
  in.attach_grad();
  auto f = [&](bool planned) {
    in.grad().assign(0.5);
    NDArray y = autograd::record([&] { return planned ? call(graph, {in})[0] : nd.tanh(in) * nd.exp(in); });
    y.backward(in.grad());
    return in.grad().copy();
  };
  CHECK(same_bits(f(true), f(false)));
}

TEST_CASE("execution plan: what is wanted is settled by the forward") {
  Symbol a = sym.var("data0", {3}), b = sym.var("data1", {3}), c = sym.var("data2", {3});
  CachedGraph graph(a * b * c, data_names(3), {.static_alloc = true}, "wanted");
  NDArray x = nd.array({1, 2, 3}), y = nd.array({4, 5, 6}), z = nd.ones({3});
  y.attach_grad();
  NDArray out = autograd::record([&] { return call(graph, {x, y, z})[0]; });
  x.attach_grad();  // too late
  z.attach_grad();
  out.backward();
  CHECK(floats(y.grad()) == std::vector<float>{1, 2, 3});
  CHECK(floats(x.grad()) == std::vector<float>(3, 0));
  out = autograd::record([&] { return call(graph, {x, y, z})[0]; });
  NDArray gradient = y.grad();
  y.attach_grad(GradReq::null);
  out.backward();
  CHECK(floats(x.grad()) == std::vector<float>{4, 5, 6});
  CHECK(floats(z.grad()) == std::vector<float>{4, 10, 18});
}

TEST_CASE("execution plan: one output of several has a head gradient") {
  Symbol x = sym.var("data0", {4});
  CachedGraph graph(Symbol::group({sym.tanh(x), sym.exp(x)}), {"data0"}, {.static_alloc = true, .exact = true},
                    "partial");
  NDArray in = numbers({4});
  in.attach_grad();
  for (size_t i : {0, 1}) {
    auto out = autograd::record([&] { return call(graph, {in}); });
    out[i].backward();
    NDArray got = in.grad().copy();
    autograd::record([&] { return i == 0 ? nd.tanh(in) : nd.exp(in); }).backward();
    CHECK(same_bits(got, in.grad()));
  }
}

TEST_CASE("execution plan: gradients of gradients, with two outputs and with a head gradient that is recorded") {
  Symbol a = sym.var("data0", {4}), b = sym.var("data1", {4});
  auto program = [](const auto& F, const auto& x, const auto& y) {
    auto t = F.tanh(x * y);
    return std::vector{t * x, F.exp(t) + y};
  };
  CachedGraph graph(Symbol::group(program(sym, a, b)), data_names(2), {.exact = true}, "second");
  for (int which : {0, 1, 2}) {  // heads: the first output, the second, both
    std::vector<NDArray> results[2];
    for (bool planned : {false, true}) {
      NDArray x = numbers({4}, 1), y = numbers({4}, 2), h = numbers({4}, 3);
      for (NDArray* i : {&x, &y, &h}) i->attach_grad();
      autograd::record([&] {
        std::vector<NDArray> out = planned ? call(graph, {x, y}) : program(nd, x, y);
        std::vector<NDArray> heads, grads;
        for (int i : {0, 1}) {
          if (which == 1 - i) continue;
          heads.push_back(out[size_t(i)]);
          grads.push_back(i == 0 ? nd.sin(h) : NDArray());
        }
        const NDArray variables[] = {x, y};
        std::vector<NDArray> d = autograd::grad(heads, variables, grads, true, true);
        results[planned] = d;
        return d[0] * d[0] + d[1];
      }).backward();
      for (NDArray* i : {&x, &y, &h}) results[planned].push_back(i->grad());
    }
    for (size_t i = 0; i < 5; ++i) {
      INFO("heads " << which << ", result " << i);
      CHECK(same_bits(results[0][i], results[1][i]));
    }
    CHECK((which == 1) == (floats(results[1][4]) == std::vector<float>(4, 0)));
  }
}

TEST_CASE("execution plan: 4 threads take gradients of gradients of one graph, the first ones included") {
  Symbol x = sym.var("data0", {6});
  CachedGraph graph(sym.tanh(x * x), {"data0"}, {.static_alloc = true, .exact = true}, "net");
  auto second = [](uint32_t seed, auto&& f) {
    NDArray in = numbers({6}, seed);
    in.attach_grad();
    autograd::record([&] { return autograd::grad(f(in), in, true); }).backward();
    return in.grad();
  };
  std::vector<NDArray> got(40);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 10 * t; i < 10 * t + 10; ++i) {
        got[i] = second(i, [&](const NDArray& in) { return call(graph, {in})[0]; });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (uint32_t i = 0; i < 40; ++i) {
    CHECK(same_bits(got[i], second(i, [](const NDArray& in) { return nd.tanh(in * in); })));
  }
}

TEST_CASE("execution plan: a gradient's program draws the numbers of its forward, whatever of it is needed") {
  // the first draw reaches no gradient: the second one keeps its place
  Symbol x = sym.var("data0", {50});
  Symbol noise = sym.random_uniform({50});
  CachedGraph graph(Symbol::group({noise + 0, sym.Dropout(x * x * x, {.p = 0.5})}), {"data0"}, {.exact = true},
                    "noise");
  NDArray in = numbers({50});
  in.attach_grad();
  kaon::random::seed(5);
  autograd::record([&] {
    std::vector<NDArray> out = call(graph, {in});
    nd.random_uniform({10});  // numbers drawn in between are others
    NDArray d = autograd::grad(out[1], in, true);
    require_near(d * in, nd.multiply(out[1], 3).asvector<double>(), 1e-5);
    return d;
  }).backward();
  NDArray kept = in.grad() / (6 * in);  // the mask
  for (double m : kept.asvector<double>()) CHECK((std::abs(m) < 1e-6 || std::abs(m - 2) < 1e-5));
}

TEST_CASE("execution plan: an error names node, operator and the line of the call; the next call is right") {
  Symbol x = sym.var("data0", {2});
  CachedGraph graph(sym.tanh(fails_on_nan(x * 2, std::source_location::current(), "inner_check")), {"data0"},
                    {.static_alloc = true}, "net");
  NDArray good = nd.array({1, 2}), bad = nd.array({NAN, 1.0f});
  good.attach_grad();
  bad.attach_grad();
  NDArray y = autograd::record([&] { return call(graph, {bad})[0]; });
  const int line = __LINE__ - 1;
  std::string text = message_of([&] { y.wait_to_read(); });
  CHECK_THAT(text, Contains("in node inner_check (_test_fails_on_nan)") && Contains("[net]") &&
                       Contains(std::string("execution_plan_test.cpp:") + std::to_string(line)));
  y.backward();
  CHECK_THROWS_AS(bad.grad().wait_to_read(), ValueError);
  for (int time = 0; time < 3; ++time) {
    NDArray z = autograd::record([&] { return call(graph, {good})[0]; });
    z.backward();
    CHECK(same_bits(z, nd.tanh(good * 2)));
    z = autograd::record([&] { return call(graph, {bad})[0]; });
    CHECK_THROWS_AS(z.wait_to_read(), ValueError);
  }
  try {
    nd.waitall();
  } catch (const AggregateError&) {
  }
}

TEST_CASE("users row 6: a plan of ten operators whose sixth fails releases twenty who wait for it") {
  auto program = [](auto F, auto x) {
    for (int i = 0; i < 5; ++i) x = F.tanh(x + 1);
    auto y = fails_on_nan(x, std::source_location::current(), "sixth");
    for (int i = 0; i < 4; ++i) y = F.tanh(y * 2);
    return std::pair(x, y);
  };
  const auto [fifth, tenth] = program(sym, sym.var("data0", {1000}));
  for (bool static_alloc : {true, false}) {
    CachedGraph graph(Symbol::group({fifth, tenth}), {"data0"}, {.static_alloc = static_alloc, .exact = true}, "net");
    const NDArray good = numbers({1000}), bad = nd.full({1000}, NAN);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<NDArray> failed = call(graph, {bad});
    const int line = __LINE__ - 1;
    auto read = [](NDArray a, std::atomic<int>& told, std::atomic<int>& ended) -> Task<void> {
      try {
        co_await a;
      } catch (const ValueError&) {
        ++told;
      }
      ++ended;
    };
    std::atomic<int> told{0}, ended{0};
    for (int i = 0; i < 20; ++i) {
      spawn(read(failed[size_t(i % 2)], told, ended), Engine::current().io_executor());
    }
    while (ended < 20 && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(ended == 20);
    CHECK(told == 10);
    NDArray before = bad;
    for (int i = 0; i < 5; ++i) before = nd.tanh(before + 1);
    CHECK(same_bits(failed[0], before));  // what was computed before the sixth is whole
    CHECK_THROWS_WITH(failed[1].wait_to_read(), Contains("in node sixth (_test_fails_on_nan)") &&
                                                    Contains("computing (1000,) float32 from (1000,)") &&
                                                    Contains("execution_plan_test.cpp:" + std::to_string(line)));
    const auto [want_fifth, want_tenth] = program(nd, good);
    const std::vector<NDArray> got = call(graph, {good});
    CHECK(same_bits(got[0], want_fifth));
    CHECK(same_bits(got[1], want_tenth));
    CHECK_NOTHROW(nd.waitall());
  }
}

TEST_CASE("execution plan: a failure before or behind BatchNorm leaves its statistics as they were") {
  for (bool before : {true, false}) {
    INFO((before ? "before" : "behind"));
    auto program = [&](auto F, auto x, auto gamma, auto beta, auto mean, auto var) {
      if (before) x = fails_on_nan(x);
      auto y = F.BatchNorm(x, gamma, beta, mean, var, {.fix_gamma = false});
      return before ? y : fails_on_nan(F.sqrt(y));  // half of what was normalised is negative
    };
    auto statistics = [&] {
      NDArray x = nd.array({before ? NAN : 1.0f, 2, 3, 5}).reshape({4, 1});
      std::vector<NDArray> in{x, nd.ones({1}), nd.zeros({1}), nd.zeros({1}), nd.ones({1})};
      Symbol s[] = {sym.var("data0", {4, 1}), sym.var("gamma", {1}), sym.var("beta", {1}), sym.var("mean", {1}),
                    sym.var("var", {1})};
      CachedGraph graph(program(sym, s[0], s[1], s[2], s[3], s[4]), {"data0", "gamma", "beta", "mean", "var"},
                        {.exact = true}, "net");
      const NDArray y = autograd::train_mode([&] { return call(graph, in)[0]; });
      CHECK_THROWS_AS(y.wait_to_read(), ValueError);
      return std::pair(in[3].asscalar<float>(), in[4].asscalar<float>());
    };
    CHECK(statistics() == std::pair(0.0f, 1.0f));  // a plan is one operation: it updates all of this or nothing
  }
}

}  // namespace execution_plan_test

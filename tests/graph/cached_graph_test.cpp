#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/storage.h"
#include "kaon/ops/op_def.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <thread>

#include "kaon/tests/graph/support.h"

namespace cached_graph_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Symbol mlp() {
  Symbol x = sym.var("data");
  for (int i = 0; i < 3; ++i) {
    std::string n = std::to_string(i);
    x = sym.tanh(sym.FullyConnected(x, sym.var("w" + n, {8, 8}), sym.var("b" + n, {8}), {.num_hidden = 8}));
  }
  return x;
}
const std::vector<std::string> mlp_names{"data", "w0", "b0", "w1", "b1", "w2", "b2"};

std::vector<NDArray> mlp_parameters() {
  std::vector<NDArray> p;
  for (uint32_t i = 0; i < 6; ++i) p.push_back(numbers(i % 2 ? Shape(8) : Shape(8, 8), 10 + i));
  return p;
}
std::vector<NDArray> with_data(const NDArray& x, const std::vector<NDArray>& p) {
  std::vector<NDArray> all{x};
  all.insert(all.end(), p.begin(), p.end());
  return all;
}

}  // namespace

TEST_CASE("users row 30: 12 shapes in a cache of 8: every count is exact, no plan that is there is made again") {
  CachedGraph graph(sym.tanh(sym.var("data")), {"data"}, {.static_alloc = true, .max_plans = 8}, "net");
  auto check = [&](uint64_t hits, uint64_t misses, uint64_t evictions) {
    PlanStats s = graph.stats();
    CHECK(s.hits == hits);
    CHECK(s.misses == misses);
    CHECK(s.evictions == evictions);
  };
  auto run = [&](int n) {
    NDArray x = numbers({n, 3});
    CHECK(same_bits(call(graph, {x})[0], nd.tanh(x)));
  };
  for (int n = 1; n <= 12; ++n) run(n);
  check(0, 12, 4);
  for (int n = 5; n <= 12; ++n) run(n);
  check(8, 12, 4);
  run(1);  // takes the place of 5, used longest ago
  check(8, 13, 5);
  for (int n = 6; n <= 12; ++n) run(n);
  run(1);
  check(16, 13, 5);
  run(5);
  check(16, 14, 6);
}

TEST_CASE("users row 30: a miss says why in one line") {
  CachedGraph graph(sym.relu(sym.var("data")) + sym.var("other"), {"data", "other"}, {.static_alloc = true}, "net");
  NDArray y = numbers({1});
  auto right = [&](const NDArray& a, const NDArray& b) {
    const NDArray expected = nd.relu(a) + b;
    require_near(call(graph, {a, b})[0], expected.asvector<double>());
  };
  CHECK(graph.last_miss().empty());
  right(numbers({32, 2}), y);
  CHECK(graph.last_miss() == "first call");
  right(numbers({31, 2}), y);
  CHECK(graph.last_miss() == "data dim 0: 32 -> 31");
  right(numbers({31, 2, 1}), y);
  CHECK(graph.last_miss() == "data shape: (31, 2) -> (31, 2, 1)");
  right(numbers({31, 2, 1}).astype(DType::float64), y.astype(DType::float64));
  CHECK(graph.last_miss() == "data dtype: float32 -> float64");
  right(numbers({31, 2, 1}).astype(DType::float64), numbers({1, 1}).astype(DType::float64));
  CHECK(graph.last_miss() == "other shape: (1,) -> (1, 1)");
  NDArray x = numbers({4});
  right(x, y);
  autograd::train_mode([&] { return call(graph, {x, y}); });
  CHECK(graph.last_miss() == "training: false -> true");
  x.attach_grad();
  autograd::record([&] { return call(graph, {x, y}); });
  CHECK(graph.last_miss() == "recording: false -> true");
  y.attach_grad();
  autograd::record([&] { return call(graph, {x, y}); });
  CHECK(graph.last_miss() == "other gradients are wanted");
  uint64_t misses = graph.stats().misses;
  autograd::record([&] { return call(graph, {x, y}); });
  right(x, y);
  right(numbers({3, 4})[1], y);  // a view that begins elsewhere is no other signature
  CHECK(graph.stats().misses == misses);
}

TEST_CASE("cached graph: one operation per forward and one per backward") {
  Engine engine;  // of its own: its operations are counted
  EngineScope scope(engine);
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true}, "net");
  auto parameters = mlp_parameters();
  for (NDArray& p : parameters) p.attach_grad();
  auto inputs = with_data(numbers({4, 8}), parameters);
  for (int time = 0; time < 5; ++time) {
    uint64_t before = engine.stats().ops;
    NDArray y = autograd::record([&] { return call(graph, inputs)[0]; });
    CHECK(engine.stats().ops == before + 1);
    y.backward();
    CHECK(engine.stats().ops == before + 2);
    call(graph, inputs);
    CHECK(engine.stats().ops == before + 3);
  }
}

TEST_CASE("cached graph: every gradient is the imperative one, with write and add") {
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true, .exact = true}, "net");
  for (GradReq req : {GradReq::write, GradReq::add}) {
    auto parameters = mlp_parameters();
    for (NDArray& p : parameters) p.attach_grad(req);
    NDArray x = numbers({5, 8});
    x.attach_grad(req);
    auto steps = [&](bool planned) {
      for (NDArray& p : parameters) p.grad().assign(0);
      x.grad().assign(0);
      for (int i = 0; i < 3; ++i) {
        NDArray y = autograd::record([&] {
          if (planned) return call(graph, with_data(x, parameters))[0];
          NDArray h = x;
          for (size_t k = 0; k < 6; k += 2)
            h = nd.tanh(nd.FullyConnected(h, parameters[k], parameters[k + 1], {.num_hidden = 8}));
          return h;
        });
        y.backward();
      }
      std::vector<NDArray> g{x.grad().copy()};
      for (NDArray& p : parameters) g.push_back(p.grad().copy());
      return g;
    };
    auto imperative = steps(false), planned = steps(true);
    for (size_t i = 0; i < planned.size(); ++i) CHECK(same_bits(planned[i], imperative[i]));
  }
}

TEST_CASE("cached graph: two outstanding recorded forwards keep their values apart") {
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true, .static_shape = true, .exact = true}, "net");
  auto parameters = mlp_parameters();
  for (NDArray& p : parameters) p.attach_grad();
  NDArray x1 = numbers({4, 8}, 1), x2 = numbers({4, 8}, 2);
  auto gradient = [&](const NDArray& x) {
    autograd::record([&] { return call(graph, with_data(x, parameters))[0]; }).backward();
    return parameters[0].grad().copy();
  };
  NDArray g1 = gradient(x1), g2 = gradient(x2);
  NDArray y1 = autograd::record([&] { return call(graph, with_data(x1, parameters))[0]; });
  NDArray y2 = autograd::record([&] { return call(graph, with_data(x2, parameters))[0]; });
  for (int i = 0; i < 5; ++i) call(graph, with_data(x2, parameters));
  y1.backward();
  CHECK(same_bits(parameters[0].grad(), g1));
  y2.backward();
  CHECK(same_bits(parameters[0].grad(), g2));
  NDArray sum = autograd::record(
      [&] { return call(graph, with_data(x1, parameters))[0] + call(graph, with_data(x2, parameters))[0]; });
  sum.backward();
  require_near(parameters[0].grad(), (g1 + g2).asvector<double>());
}

TEST_CASE("cached graph: a recorded forward that is dropped gives its memory back to the plan") {
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true}, "net");
  auto parameters = mlp_parameters();
  for (NDArray& p : parameters) p.attach_grad();
  for (int i = 0; i < 20; ++i) {
    autograd::record([&] { return call(graph, with_data(numbers({4, 8}), parameters)); });
    nd.waitall();
  }
  CHECK(graph.plan()->num_arenas() == 1);
}

TEST_CASE("users row 21: train, infer, train over many operators") {
  auto programs = [](auto F, const auto& x) {
    using A = std::decay_t<decltype(x)>;
    return std::vector<A>{F.sqrt(x) + F.sqrt(x * 2),
                          F.exp(x),
                          F.log(x),
                          F.tanh(x),
                          F.sigmoid(x),
                          F.relu(x - 1),
                          F.square(x),
                          F.softmax(x),
                          F.log_softmax(x),
                          F.mean(x),
                          F.sum(x, {.axis = Shape(1)}),
                          F.max(x),
                          F.transpose(x),
                          F.concat(op::Concat{.dim = 0}, x, x * 3),
                          x.slice(0, 1),
                          F.reshape(x, {-1}),
                          F.clip(x, 0.5, 1.5),
                          F.broadcast_maximum(x, F.ones_like(x)),
                          F.dot(x, x),
                          F.Activation(x, {.act_type = ActivationType::softrelu}),
                          F.LeakyReLU(x - 1, {}),
                          x % 0.7};
  };
  size_t count = programs(nd, nd.ones({2, 2})).size();
  REQUIRE(count >= 20);
  for (size_t k = 0; k < count; ++k) {
    INFO("program " << k);
    CachedGraph graph(programs(sym, sym.var("data", {2, 2}))[k], {"data"}, {.static_alloc = true, .exact = true},
                      "net");
    auto train = [&](const NDArray& value, bool planned) {
      NDArray x = value.copy();
      x.attach_grad();
      autograd::record([&] { return planned ? call(graph, {x})[0] : programs(nd, x)[k]; }).backward();
      return x.grad();
    };
    NDArray x1 = nd.array({0.6, 0.9, 1.2, 1.7}, {2, 2}), x2 = x1 + 1;
    CHECK(same_bits(train(x1, true), train(x1, false)));
    CHECK(same_bits(train(x2, true), train(x2, false)));
    CHECK(same_bits(call(graph, {x1})[0], programs(nd, x1)[k]));
    CHECK(same_bits(train(x1, true), train(x1, false)));
  }
}

TEST_CASE("users row 22: a value used 1 to 20 times, write and add") {
  for (int k = 1; k <= 20; ++k) {
    auto f = [&](auto F, const auto& x) {
      auto sum = F.tanh(x);
      for (int i = 1; i < k; ++i) sum = sum + x * double(i);
      return sum;
    };
    CachedGraph graph(f(sym, sym.var("data", {3})), {"data"}, {.static_alloc = true, .exact = true}, "fan");
    for (GradReq req : {GradReq::write, GradReq::add}) {
      NDArray a = numbers({3}), b = numbers({3});
      a.attach_grad(req);
      b.attach_grad(req);
      for (int time = 0; time < 2; ++time) {
        autograd::record([&] { return call(graph, {a})[0]; }).backward();
        autograd::record([&] { return f(nd, b); }).backward();
      }
      CHECK(same_bits(a.grad(), b.grad()));
      std::vector<double> slopes;  // of tanh(x) + x + 2 x + ... + (k - 1) x
      for (double x : a.asvector<double>()) {
        slopes.push_back((1 - std::tanh(x) * std::tanh(x) + k * (k - 1) / 2) * (req == GradReq::add ? 2 : 1));
      }
      require_near(a.grad(), slopes, 1e-5);
    }
  }
}

TEST_CASE("users row 23: outputs are never overwritten by later calls") {
  for (bool static_alloc : {false, true}) {
    CachedGraph graph(sym.tanh(sym.var("data", {8})) * 2, {"data"}, {.static_alloc = static_alloc}, "net");
    std::vector<NDArray> kept, copies;
    for (uint32_t i = 0; i < 10; ++i) {
      kept.push_back(call(graph, {numbers({8}, i)})[0]);
      copies.push_back(kept.back().copy());
    }
    for (size_t i = 0; i < 10; ++i) CHECK(same_bits(kept[i], copies[i]));
  }
}

TEST_CASE("users row 23: without static_alloc the arena goes back to the storage") {
  for (bool static_alloc : {false, true}) {
    CachedGraph graph(sym.softmax(sym.softmax(sym.var("data", {1024, 1024}))) * 2, {"data"},
                      {.static_alloc = static_alloc}, "net");
    NDArray x = nd.ones({1024, 1024});
    nd.waitall();
    size_t before = Storage::cpu().stats().live;
    NDArray y = call(graph, {x})[0];
    nd.waitall();
    size_t output = size_t(y.size()) * 4, arena = graph.plan()->memory().arena_bytes;
    REQUIRE(arena >= output);
    CHECK(Storage::cpu().stats().live - before == output + (static_alloc ? arena : 0));
    x.attach_grad();
    nd.waitall();
    before = Storage::cpu().stats().live;
    y = autograd::record([&] { return call(graph, {x})[0]; });
    nd.waitall();
    const size_t larger = graph.plan()->memory().arena_bytes;
    REQUIRE(larger > arena);
    // what the backward needs, where the first plan's values were, and the new y for the old one
    CHECK(Storage::cpu().stats().live - before == larger - (static_alloc ? arena : 0));
    y = NDArray();
    CHECK(Storage::cpu().stats().live + output - before == (static_alloc ? larger - arena : 0));
  }
}

TEST_CASE("users row 23: without static_alloc the arena goes back to the storage whatever becomes of the run") {
  // 4 MiB between the operators
  CachedGraph graph(fails_on_nan(sym.softmax(sym.softmax(sym.var("data", {1024, 1024})))), {"data"}, {}, "net");
  NDArray good = nd.ones({1024, 1024}), bad = nd.full({1024, 1024}, NAN);
  good.attach_grad();
  bad.attach_grad();
  nd.waitall();
  const size_t before = Storage::cpu().stats().live;
  auto live_after = [&](auto&& work) {
    work();
    try {
      nd.waitall();
    } catch (const AggregateError&) {
    }
    return Storage::cpu().stats().live - before;
  };
  auto recorded = [&](const NDArray& x) { return autograd::record([&] { return call(graph, {x})[0]; }); };
  INFO("a prediction that fails");
  CHECK(live_after([&] { call(graph, {bad}); }) == 0);
  INFO("a recorded forward that fails, then its backward, which does not run");
  CHECK(live_after([&] { recorded(bad).backward(); }) == 0);
  INFO("a backward that does not run because its head gradient has failed");
  CHECK(live_after([&] {
          NDArray y = recorded(good), head = nd.full({1024, 1024}, NAN);
          y.backward(fails_on_nan(head));
        }) == 0);
  CHECK(graph.plan()->memory().arena_bytes > 0);
}

TEST_CASE("users row 23: without static_alloc a recorded forward that runs after its result was dropped keeps nothing",
          "[async]") {
  CachedGraph graph(sym.softmax(sym.softmax(sym.var("data", {1024, 1024}))), {"data"}, {}, "net");
  NDArray x = nd.ones({1024, 1024});
  x.attach_grad();
  nd.waitall();
  const size_t before = Storage::cpu().stats().live;
  std::latch gate(1);
  Engine::current().push({update(x.var())}, [&](RunContext&) { gate.wait(); });
  autograd::record([&] { return call(graph, {x})[0]; });
  gate.count_down();
  nd.waitall();
  CHECK(Storage::cpu().stats().live == before);
}

TEST_CASE("users row 38: the operators inside a plan are in the trace, each within the plan's operation") {
  Engine engine({.threads = 1});
  const EngineScope scope(engine);
  CachedGraph graph(sym.sum(sym.softmax(sym.var("data", {4, 250}))), {"data"}, {.static_alloc = true}, "net");
  const NDArray x = nd.ones({4, 250});
  call(graph, {x});
  nd.waitall();
  engine.profiler().start();
  for (int i = 0; i < 3; ++i) call(graph, {x});
  nd.waitall();
  engine.profiler().stop();
  std::vector<Profiler::Event> runs, inside;
  for (const Profiler::Event& e : engine.profiler().events()) {
    if (std::string_view(e.category) == "operator") runs.push_back(e);
    if (std::string_view(e.category) == "plan") inside.push_back(e);
  }
  REQUIRE(runs.size() == 3);
  REQUIRE(inside.size() == 6);
  for (size_t i = 0; i < inside.size(); ++i) {
    CHECK(std::string_view(inside[i].name) == (i % 2 ? "sum" : "softmax"));
    CHECK(inside[i].begin >= runs[i / 2].begin);
    CHECK(inside[i].end <= runs[i / 2].end);
  }
}

TEST_CASE("cached graph: more inputs than an operation can have are refused") {
  std::vector<Symbol> inputs;
  std::vector<std::string> names;
  for (int i = 0; i < 66000; ++i) {
    names.push_back("x" + std::to_string(i));
    inputs.push_back(sym.var(names.back()));
  }
  CachedGraph graph(sym.add_n(inputs), names, {}, "wide");
  CHECK_THROWS_WITH(call(graph, std::vector<NDArray>(66000, nd.ones({1}))), Contains("at most 65533"));
}

TEST_CASE("cached graph: 8 threads call one graph at once, first calls included, with and without recording") {
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true, .exact = true}, "net");
  auto parameters = mlp_parameters();
  std::vector<NDArray> inputs, expected, gradients;
  auto imperative = [&](const NDArray& x) {
    NDArray h = x;
    for (size_t k = 0; k < 6; k += 2)
      h = nd.tanh(nd.FullyConnected(h, parameters[k], parameters[k + 1], {.num_hidden = 8}));
    return h;
  };
  for (int n = 1; n <= 4; ++n) {
    inputs.push_back(numbers({n, 8}, uint32_t(n)));
    inputs.back().attach_grad();
    expected.push_back(autograd::record([&] { return imperative(inputs.back()); }));
    expected.back().backward();
    gradients.push_back(inputs.back().grad().copy());
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        size_t k = size_t(t + i) % 4;
        NDArray x = inputs[k].copy();
        x.attach_grad();
        NDArray y = t % 2 ? autograd::record([&] { return call(graph, with_data(x, parameters))[0]; })
                          : call(graph, with_data(x, parameters))[0];
        if (t % 2) {
          y.backward();
          wrong += !same_bits(x.grad(), gradients[k]);
        }
        wrong += !same_bits(y, expected[k]);
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(graph.stats().hits + graph.stats().misses == 400);
}

TEST_CASE("cached graph: what is wrong is said at the call") {
  CachedGraph graph(mlp(), mlp_names, {}, "net");
  auto parameters = mlp_parameters();
  CHECK_THROWS_WITH(call(graph, with_data(numbers({4, 7}), parameters)), Contains("in node fullyconnected"));
  CHECK_THROWS_AS(call(graph, {numbers({4, 8})}), ValueError);
  auto undefined = with_data(NDArray(), parameters);
  CHECK_THROWS_AS(call(graph, undefined), StateError);
  CHECK_THROWS_AS(graph.plan(), StateError);
  CHECK_THROWS_WITH(CachedGraph(mlp(), mlp_names, {.static_shape = true}, "net"),
                    Contains("static_shape requires static_alloc"));
  CHECK_THROWS_AS(CachedGraph(mlp(), mlp_names, {.max_plans = 0}, "net"), ValueError);
  Symbol same = sym.var("data", {2}) + sym.var("data", {2});
  CHECK_THROWS_WITH(CachedGraph(same, {"data", "data"}, {}, "net"), Contains("two inputs or parameters named 'data'"));
  CHECK(call(graph, with_data(numbers({4, 8}), parameters))[0].shape() == Shape(4, 8));
}

namespace {

// y = x; waits until two runs of it have begun, at most 5 s. y[0] says whether they met.
std::atomic<int> g_meeting{0};
struct Meets {
  static constexpr OpTraits traits{.name = "_test_meets", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const Meets&, KernelContext& c) {
  ++g_meeting;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (g_meeting < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  c.out().as<float>()[0] = g_meeting >= 2;
}
const OpDef Meets::def = make_op_def<Meets>();

Symbol normalized(const Symbol& x) {
  return sym.BatchNorm(x, sym.var("g"), sym.var("b"), sym.var("m"), sym.var("v"), {});
}
const std::vector<std::string> normalized_names{"data", "g", "b", "m", "v"};
std::vector<NDArray> statistics() { return {nd.ones({2}), nd.zeros({2}), nd.zeros({2}), nd.ones({2})}; }

}  // namespace

TEST_CASE("users row 33: predictions with running statistics run side by side") {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  CachedGraph graph(sym.call(Meets{}, normalized(sym.var("data"))), normalized_names, {.static_alloc = true}, "net");
  auto p = statistics();
  NDArray x1 = numbers({1, 2}, 1), x2 = numbers({1, 2}, 2);
  engine.wait_all();
  g_meeting = 0;
  NDArray a = call(graph, with_data(x1, p))[0], b = call(graph, with_data(x2, p))[0];
  CHECK(a.slice(0, 1).asvector<float>()[0] == 1);
  CHECK(b.slice(0, 1).asvector<float>()[0] == 1);
}

TEST_CASE("cached graph: a prediction that fails leaves the running statistics as they were") {
  CachedGraph graph(fails_on_nan(normalized(sym.var("data"))), normalized_names, {.static_alloc = true}, "net");
  auto p = statistics();
  NDArray good = numbers({3, 2});
  NDArray expected = call(graph, with_data(good, p))[0];
  NDArray bad = call(graph, with_data(nd.full({3, 2}, std::nan("")), p))[0];
  CHECK_THROWS_AS(bad.wait_to_read(), ValueError);
  CHECK(same_bits(call(graph, with_data(good, p))[0], expected));
}

TEST_CASE("cached graph: one graph under several engines, of which some are gone") {
  CachedGraph graph(mlp(), mlp_names, {.static_alloc = true, .exact = true}, "net");
  auto gradient = [&] {
    auto p = mlp_parameters();
    for (NDArray& a : p) a.attach_grad();
    NDArray y = autograd::record([&] { return call(graph, with_data(numbers({4, 8}), p))[0]; });
    for (int i = 0; i < 4; ++i) call(graph, with_data(numbers({4, 8}), p));
    y.backward();
    return floats(p[0].grad());
  };
  auto expected = gradient();
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    CHECK(gradient() == expected);
    engine.wait_all();
  }
  CHECK(gradient() == expected);
  Engine other({.threads = 1});
  auto p = mlp_parameters();
  NDArray elsewhere;
  {
    EngineScope scope(other);
    elsewhere = numbers({4, 8});
  }
  CHECK_THROWS_WITH(call(graph, with_data(elsewhere, p)), Contains("different engines"));
}

TEST_CASE("cached graph: an operator with 70000 inputs") {
  std::vector<Symbol> all(70000, sym.var("data"));
  all.back() = sym.var("last");
  CachedGraph graph(sym.add_n(all), {"data", "last"}, {}, "sum");
  CHECK(floats(call(graph, {nd.array({1, 2}), nd.array({5, 6})})[0]) == std::vector<float>{70004, 140004});
}

}  // namespace cached_graph_test

// Tracing: hybrid_forward runs once per signature and mode, and the result does not change.
#include "kaon/engine/storage.h"
#include "kaon/gluon/block.h"

#include <thread>

#include "kaon/gluon/symbol_block.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace hybrid_block_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A block around a generic lambda of (F, x...).
template <class Body>
struct Lambda : gluon::HybridBlock<Lambda<Body>> {
  Body body;
  explicit Lambda(Body b) : gluon::HybridBlock<Lambda<Body>>("lambda"), body(b) {}
  auto hybrid_forward(auto F, auto... x) { return body(F, x...); }
};

std::vector<NDArray> list(const NDArray& a) { return {a}; }
std::vector<NDArray> list(const std::vector<NDArray>& a) { return a; }
std::vector<NDArray> list(const std::pair<NDArray, NDArray>& p) { return {p.first, p.second}; }
template <class... A>
std::vector<NDArray> list(const std::tuple<A...>& t) {
  return std::apply([](const auto&... a) { return std::vector<NDArray>{a...}; }, t);
}
template <size_t N>
std::vector<NDArray> list(const std::array<NDArray, N>& a) {
  return {a.begin(), a.end()};
}

// Imperative and hybridized results are the same bits; hybridized it runs once.
template <class Body, class... X>
void check_same(Body body, const X&... x) {
  auto runs = std::make_shared<int>(0);
  auto counted = [=](auto F, auto... in) {
    ++*runs;
    return body(F, in...);
  };
  Lambda block(counted);
  auto expected = list(block(x...));
  block.hybridize({.static_alloc = true, .exact = true});
  *runs = 0;
  for (int time = 0; time < 3; ++time) {
    auto got = list(block(x...));
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("result " << i);
      REQUIRE(same_bits(got[i], expected[i]));
    }
  }
  CHECK(*runs == 1);
}

}  // namespace

TEST_CASE("hybrid: hybrid_forward runs per call, then once per mode, then never again", "[gluon][traces]") {
  Mlp net = ready(Mlp());
  NDArray x = numbers({16, 8});
  NDArray expected = net(x);
  net(x);
  CHECK(*net.arrays == 2);
  net.hybridize({.static_alloc = true, .static_shape = true});
  *net.symbols = 0;
  for (int i = 0; i < 5; ++i) require_close(net(x), values(expected));
  CHECK(*net.arrays == 2);
  CHECK(*net.symbols == 1);
  for (int i = 0; i < 5; ++i) autograd::record([&] { return net(x); });
  CHECK(*net.symbols == 2);  // for training
  net(numbers({3, 8}));      // another shape: planned again, not traced again
  CHECK(*net.symbols == 2);
  Symbol y = net(sym.var("data"));
  CHECK(y.list_arguments() == std::vector<std::string>{"data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"});
  CHECK(fmt::format("{}", y) == "<Symbol fc2_fwd>");
  net.hybridize(false);
  CHECK(same_bits(net(x), expected));
  CHECK(*net.arrays == 3);
}

TEST_CASE("hybrid: deferred shapes are completed by the first call, hybridized or not", "[gluon]") {
  for (bool active : {false, true}) {
    Mlp net;
    net.initialize();
    if (active) net.hybridize();
    CHECK(net.fc1.weight.is_deferred());
    CHECK(net(numbers({2, 3, 5})).shape() == Shape(2, 4));
    CHECK(net.fc1.weight.shape() == Shape(16, 15));
    CHECK(net.fc2.weight.shape() == Shape(4, 16));
    CHECK_THROWS_AS(net(numbers({2, 7})), ShapeError);
    CHECK(net(numbers({1, 15})).shape() == Shape(1, 4));
  }
}

namespace {
struct NeedsWidth : gluon::HybridBlock<NeedsWidth> {
  Fc fc = child("fc", Fc(4));
  auto hybrid_forward(auto F, auto x) { return F.dot(fc(x), F.ones({x.shape()[1] - 1, 2})); }
};
}  // namespace

TEST_CASE("hybrid: a first call that fails leaves no trace: the next one infers anew", "[gluon]") {
  NeedsWidth net;
  net.initialize();
  net.hybridize();
  CHECK_THROWS_AS(net(numbers({3, 9})), ShapeError);
  CHECK(net.fc.weight.is_deferred());
  CHECK(net(numbers({3, 5})).shape() == Shape(3, 2));
  CHECK(net.fc.weight.shape() == Shape(4, 5));
}

TEST_CASE("hybrid: not initialized is said by name", "[gluon]") {
  Mlp net;
  CHECK_THROWS_WITH(net(numbers({2, 5})), Contains("fc1_") && Contains("is not initialized"));
  net.hybridize();
  CHECK_THROWS_WITH(net(numbers({2, 5})), Contains("fc1_") && Contains("is not initialized"));
  net.initialize();
  CHECK(net(numbers({2, 5})).shape() == Shape(2, 4));
}

TEST_CASE("hybrid: several arrays in and out", "[gluon][traces]") {
  NDArray a = numbers({2, 3}, 1), b = numbers({2, 3}, 2), c = numbers({1, 3}, 3), d = numbers({2, 1}, 4);
  check_same([](auto, auto x, auto y) { return x + y; }, a, b);
  check_same([](auto F, auto x, auto y, auto z, auto w) { return F.tanh(x * y) + z - w; }, a, b, c, d);
  check_same([](auto F, auto x, auto y) { return std::tuple(x + y, F.exp(x), y); }, a, b);
  check_same([](auto F, auto x) { return std::pair(F.exp(x), x); }, a);
  check_same([](auto F, auto x) { return std::vector{F.exp(x), x, x * 2}; }, a);
  check_same([](auto F, auto x) { return F.split(x, 3, {.axis = 1}); }, a);
  check_same([](auto F, auto x) { return std::array{F.exp(x), F.exp(x)}; }, a);
  Lambda block([](auto F, auto x) { return std::tuple(F.exp(x), F.square(x)); });
  block.hybridize();
  NDArray x = numbers({3});
  x.attach_grad();
  auto [e, s] = autograd::record([&] { return block(x); });
  s.backward();
  CHECK(same_bits(x.grad(), x * 2));
}

TEST_CASE("hybrid: another number of inputs is another trace", "[gluon]") {
  Lambda sum([](auto, auto first, auto... rest) { return (first + ... + rest); });
  sum.hybridize();
  NDArray one = nd.ones({2});
  CHECK(values(sum(one)) == std::vector<double>(2, 1));
  CHECK(values(sum(one, one)) == std::vector<double>(2, 2));
  CHECK(values(sum(one, one, one)) == std::vector<double>(2, 3));
  CHECK(values(sum(one, one)) == std::vector<double>(2, 2));
}

TEST_CASE("hybrid: what MXNet's hybridize cannot do: +, x[0], slices, shapes, arrays, in-place", "[gluon][traces]") {
  NDArray x = numbers({3, 4}, 1), y = numbers({3, 4}, 2), row = numbers({1, 4}, 3);
  check_same([](auto F, auto a) { return a + F.ones({1, 1}); }, x);
  check_same([](auto, auto a, auto b) { return a + b; }, x, row);
  check_same([](auto, auto a) { return std::vector{a[0], a[-1], a.slice(1, 3)}; }, x);
  check_same([](auto F, auto a) { return F.broadcast_mul(a, F.array({1, 2, 3, 4}, {1, 4})); }, x);
  check_same([](auto F, auto a) { return a + F.array({{1, 2, 3, 4}, {1, 2, 3, 4}, {5, 6, 7, 8}}); }, x);
  check_same(
      [](auto, auto a, auto b) {
        auto c = a * 1;
        c += b;
        c -= 2;
        c *= b;
        c /= 3;
        return c;
      },
      x, y);
  check_same(
      [](auto F, auto a, auto b) {
        auto c = F.zeros_like(a);
        c.assign(b);
        c.slice_assign({1, 0}, {2, 2}, 9);
        auto d = c * 1;
        d.assign(4);
        return std::pair(c, d);
      },
      x, row);
  check_same([](auto F, auto a) { return F.reshape(a, {0, 2, -1}); }, x);
  check_same([](auto F, auto a) { return F.full({2, 2}, 3) + F.arange(4).reshape({2, 2}) + a.mean(); }, x);
}

TEST_CASE("hybrid: a shape read in a trace: traced again for other shapes, and right for each", "[gluon][traces]") {
  auto runs = std::make_shared<int>(0);
  Lambda block([=](auto F, auto x) {
    ++*runs;
    auto y = x * double(x.shape()[0]);
    return x.shape()[0] > 2 ? F.exp(y) : y;
  });
  block.hybridize({.exact = true});
  for (int round = 0; round < 3; ++round) {
    for (int n : {1, 2, 3, 4}) {
      NDArray x = numbers({n, 2});
      CHECK(same_bits(block(x), n > 2 ? nd.exp(x * n) : x * n));
    }
  }
  CHECK(*runs == 4);
  CHECK_THROWS_WITH(block(sym.var("data")), Contains("the shape of data is not known"));
}

TEST_CASE("hybrid: of traces for one shape as many are kept as plans; the one used longest ago leaves",
          "[gluon][traces]") {
  auto runs = std::make_shared<int>(0);
  Lambda block([=](auto, auto x) {
    ++*runs;
    return x * double(x.shape()[0]);
  });
  block.hybridize({.exact = true, .max_plans = 2});
  auto runs_after = [&](int n) {
    NDArray x = numbers({n, 2});
    CHECK(same_bits(block(x), x * n));
    return *runs;
  };
  std::vector<int> seen;
  for (int n : {1, 2, 1, 3, 1, 3, 2, 1}) seen.push_back(runs_after(n));
  CHECK(seen == std::vector<int>{1, 2, 2, 3, 3, 3, 4, 5});
}

TEST_CASE("hybrid: a dtype read in a trace is remembered too", "[gluon]") {
  Lambda block([](auto F, auto x) { return x.dtype() == DType::float64 ? F.exp(x) : x * 2; });
  block.hybridize();
  NDArray x = numbers({3});
  CHECK(same_bits(block(x), x * 2));
  CHECK(same_bits(block(x.astype(DType::float64)), nd.exp(x.astype(DType::float64))));
  CHECK(same_bits(block(x), x * 2));
}

TEST_CASE("hybrid: a branch on the mode is traced per mode", "[gluon]") {
  Lambda block([](auto F, auto x) { return autograd::is_training() ? F.exp(x) : x * 2; });
  block.hybridize();
  NDArray x = numbers({3});
  for (int i = 0; i < 2; ++i) {
    CHECK(same_bits(autograd::train_mode([&] { return block(x); }), nd.exp(x)));
    CHECK(same_bits(block(x), x * 2));
  }
}

namespace {
struct Inside : gluon::HybridBlock<Inside> {
  Mlp mlp = child("mlp", Mlp());
  auto hybrid_forward(auto F, auto x) { return F.tanh(mlp(x)); }
};
}  // namespace

TEST_CASE("hybrid: a hybridized child inside a block that is not", "[gluon][traces]") {
  Engine engine;  // of its own: its operations are counted
  EngineScope scope(engine);
  Inside net = ready(Inside());
  NDArray x = numbers({2, 5});
  NDArray expected = net(x);
  net.mlp.hybridize({.exact = true});
  *net.mlp.symbols = 0;
  for (int i = 0; i < 3; ++i) CHECK(same_bits(net(x), expected));
  CHECK(*net.mlp.symbols == 1);
  net.hybridize({.exact = true});  // one graph for the outermost block
  *net.mlp.symbols = 0;
  net(x);
  uint64_t before = engine.stats().ops;
  NDArray y = net(x);
  CHECK(engine.stats().ops == before + 1);
  CHECK(same_bits(y, expected));
  CHECK(*net.mlp.symbols == 1);
}

TEST_CASE("hybrid: inputs that are not arrays are refused", "[gluon]") {
  Mlp net = ready(Mlp());
  CHECK_THROWS_AS(net(NDArray()), StateError);
  net.hybridize();
  CHECK_THROWS_AS(net(NDArray()), StateError);
  CHECK_THROWS_WITH(net.hybridize({.static_shape = true}), Contains("static_shape requires static_alloc"));
}

namespace {
struct OneLayer : gluon::HybridBlock<OneLayer> {
  Fc fc = child("fc", Fc(4));
  auto hybrid_forward(auto F, auto x) { return F.tanh(fc(x)); }
};
}  // namespace

TEST_CASE("hybrid: errors while running name block, node and the line of the call", "[gluon]") {
  OneLayer net = ready(OneLayer());
  net(numbers({1, 3}));
  NDArray before = net.fc.weight.data().copy();
  net.hybridize();
  Storage& storage = Storage::cpu();
  net(numbers({1, 3})).wait_to_read();
  NDArray x = nd.ones({1 << 20, 3});
  x.wait_to_read();
  storage.trim();
  storage.set_limit(storage.stats().live + (1 << 20));
  NDArray y = autograd::record([&] { return net(x); });
  const int line = __LINE__ - 1;
  y.backward();
  std::string text = message_of([&] { y.wait_to_read(); });
  storage.set_limit(0);
  CHECK_THAT(text, Contains(fmt::format("hybrid_block_test.cpp:{}", line)));
  CHECK_THROWS_WITH(net.fc.weight.grad().wait_to_read(), Contains("out of memory"));
  CHECK(same_bits(net.fc.weight.data(), before));
  y = autograd::record([&] { return net(x); });
  y.backward();
  y.wait_to_read();
  net.fc.weight.grad().wait_to_read();  // overwritten: healed
  try {
    nd.waitall();
  } catch (const AggregateError&) {
  }
}

namespace {
struct DotLayer : gluon::HybridBlock<DotLayer> {
  gluon::Parameter weight = param("weight", {3, 4096}, {.init = init::One()});
  auto hybrid_forward(auto F, auto x) { return F.dot(x, F(weight)); }
};
struct Body : gluon::HybridBlock<Body> {
  DotLayer fc2 = child("fc2", DotLayer());
  auto hybrid_forward(auto, auto x) { return fc2(x); }
};
struct NetWithBody : gluon::HybridBlock<NetWithBody> {
  Body body = child("body", Body());
  NetWithBody() : HybridBlock("net") {}
  auto hybrid_forward(auto, auto x) { return body(x); }
};
}  // namespace

TEST_CASE("users row 4: a failing dot says both shapes, its block and where it was pushed", "[gluon]") {
  NetWithBody net = ready(NetWithBody());
  NDArray x = nd.ones({4096, 3});  // 64 MiB come of it
  net(x).wait_to_read();
  // refused at the call
  auto refused = [&](int line, bool hybridized) {
    if (hybridized) net.hybridize();
    const std::string text = message_of([&] { net(nd.ones({2, 5})); });
    CHECK_THAT(text, Contains("[dot]") && Contains("(2, 5)") && Contains("(3, 4096)"));
    if (!hybridized) CHECK_THAT(text, Contains("; called in body.fc2 at hybrid_block_test.cpp:"));
    CHECK_THAT(text, Contains(fmt::format("; net called at hybrid_block_test.cpp:{}", line)));
    net.hybridize(false);
  };
  refused(__LINE__ - 6, false);
  refused(__LINE__ - 7, true);
  // found while it runs
  Storage& storage = Storage::cpu();
  nd.waitall();
  storage.trim();
  storage.set_limit(storage.stats().live + (1 << 20));
  NDArray y = net(x);
  const int line = __LINE__ + 1;
  NDArray heir = nd.sum(nd.relu(nd.exp(y)));
  const std::string text = message_of([&] { heir.wait_to_read(); });
  storage.set_limit(0);
  CHECK_THAT(text, Contains("out of memory") && Contains("(4096, 4096) float32 from (4096, 3) float32, (3, 4096)") &&
                       Contains("[dot] in ") && Contains("body.fc2, pushed at hybrid_block_test.cpp:"));
  CHECK_THAT(text, Contains(fmt::format("; inherited by [sum], pushed at hybrid_block_test.cpp:{}", line)));
  CHECK_THROWS_WITH(heir.wait_to_read(), Catch::Equals(text));
  CHECK_NOTHROW(nd.waitall());
}

TEST_CASE("hybrid: 4 threads call one net, the first call included", "[gluon][traces]") {
  Mlp reference = ready(Mlp());
  std::vector<NDArray> inputs, expected;
  for (int n = 1; n <= 3; ++n) {
    inputs.push_back(numbers({n, 8}, uint32_t(n)));
    expected.push_back(reference(inputs.back()));
  }
  for (int round = 0; round < 5; ++round) {
    Mlp net = ready(Mlp());
    net.hybridize({.static_alloc = true, .static_shape = true, .exact = true});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) wrong += !same_bits(net(inputs[size_t(i + t) % 3]), expected[size_t(i + t) % 3]);
      });
    }
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(*net.symbols == 1);
  }
}

TEST_CASE("users row 25: the input twice, a value of it and a constant as outputs: forward, backward, export",
          "[gluon][traces]") {
  auto body = [](auto F, auto x) { return std::vector{x, x, F.relu(x), F.array({1, 2, 3})}; };
  const NDArray values_in = numbers({2, 3});
  check_same(body, values_in);
  auto gradient = [&](bool hybrid) {
    Lambda block(body);
    if (hybrid) block.hybridize({.static_alloc = true, .exact = true});
    NDArray x = values_in.copy();
    x.attach_grad();
    autograd::record([&] {
      auto y = block(x);
      return (y[0] * 2 + y[1] * y[2] + y[2] * y[3]).sum();
    }).backward();
    return x.grad();
  };
  CHECK(same_bits(gradient(true), gradient(false)));
  ScratchFolder folder;
  Lambda block(body);
  block.hybridize();
  const std::vector<NDArray> expected = block(values_in);
  block.export_model((folder / "net").string());
  const auto back = gluon::SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  const std::vector<NDArray> got = back.forward({values_in});
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], expected[i]));
}

TEST_CASE("hybrid: an operator that only updates arrays is refused in a trace, not forgotten", "[gluon]") {
  Lambda block([](auto F, auto w, auto g) {
    F.sgd_update(w, g, {.lr = 1});
    return w * 1;
  });
  NDArray w = nd.ones({2}), g = nd.ones({2});
  CHECK(values(block(w, g)) == std::vector<double>{0, 0});
  block.hybridize();
  CHECK_THROWS_AS(block(w, g), TraceError);
  CHECK_THROWS_WITH(block(w, g), Contains("[sgd_update] only changes arrays in place"));
}

// What is an operator of its own is generated from the test table, in tests/ops/table/every_operator_test.cpp.
TEST_CASE("users row 26: functions that stand for an operator with a number, a list or under another name",
          "[gluon][traces]") {
  NDArray x = numbers({3, 4}, 1) + 2, y = numbers({3, 4}, 2) + 2, row = numbers({4}, 3) + 2;
  auto both_sides = [&](auto f) {
    check_same([=](auto F, auto a, auto b, auto c) { return std::vector{f(F, a, b), f(F, a, c)}; }, x, y, row);
    check_same([=](auto F, auto a) { return std::vector{f(F, a, 1.5), f(F, 1.5, a), f(F, a, 2), f(F, 2, a)}; }, x);
    check_same([=](auto F, auto a) { return std::vector{f(F, a, 2), f(F, 2, a)}; }, x.astype(DType::int32));
  };
  both_sides([](auto F, const auto& a, const auto& b) { return F.add(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.subtract(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.multiply(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.maximum(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.minimum(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.hypot(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.equal(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.not_equal(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.greater(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.greater_equal(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.lesser(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.lesser_equal(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.logical_and(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.logical_or(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.logical_xor(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.divide(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.modulo(a, b); });
  both_sides([](auto F, const auto& a, const auto& b) { return F.power(a, b); });
  both_sides([](auto, const auto& a, const auto& b) { return (a + b) - (a * b); });
  both_sides([](auto, const auto& a, const auto& b) { return (a / b) - (a % b); });
  check_same([](auto, auto a, auto b) { return std::vector{a<b, a <= b, a> b, a >= b, a == b, a != b, -a}; }, x, y);
  check_same(
      [](auto F, auto a, auto b) {
        return std::vector{F.elemwise_add(a, b), F.elemwise_sub(a, b), F.elemwise_mul(a, b), F.elemwise_div(a, b),
                           F.identity(a),        F.stop_gradient(a),   F.flip(a, {1}),       F.add_n(a, b, a)};
      },
      x, y);
  check_same(
      [](auto F, auto a, auto b) {
        const std::vector<decltype(a)> list{a, b, a};
        return std::vector{F.add_n(list),    F.concat(list, {.dim = 1}), F.stack(list, {.axis = -1}),  F.concat(a, b),
                           F.stack(a, b, b), F.stack({.axis = 1}, a, b), F.concat({.dim = 0}, a, b, a)};
      },
      x, y);
  check_same([](auto F, auto a) { return F.split(a, 2, {.axis = 1}); }, x);
  check_same([](auto F, auto a) { return F.split(a, 3, {.axis = 0, .squeeze_axis = true}); }, x);
  check_same(
      [](auto F, auto a) {
        return std::vector{a.sum(),
                           a.mean(),
                           a.transpose(),
                           a.copy(),
                           a.detach(),
                           a.reshape({4, 3}),
                           a.slice(1, 3),
                           a[1],
                           a.astype(DType::bfloat16),
                           F.slice(a, {0, std::nullopt}, {2, std::nullopt})};
      },
      x);
  check_same(
      [](auto F, auto a) {
        const double list[] = {1, 2, 3, 4};
        return std::vector{a + F.array(list),
                           F.zeros({2}),
                           F.ones({2}, {.dtype = DType::int8}),
                           F.full({1, 2}, 7),
                           F.arange(3),
                           F.arange(1, 4),
                           F.linspace(0, 1, 5),
                           F.eye(3, {.k = 1}),
                           F.array({{1, 2}, {3, 4}}),
                           F.array(std::vector<float>{1, 2}, {2, 1})};
      },
      x);
}

TEST_CASE("users row 32: reductions of gathers and slices over n = 1 to 64, under one cache of plans",
          "[gluon][traces]") {
  auto by_data = [](auto F, auto x, auto index) {  // everything follows from the inputs
    auto taken = F.take(x, index), ends = F.slice(x, {-1}, {std::nullopt}), begin = F.slice_axis(x, 0, 0);
    auto picked = F.gather_nd(x, F.reshape(index, {1, -1}));
    return std::vector{F.sum(taken),
                       F.sum(taken, {.axis = Shape(0)}),
                       F.mean(begin, {.axis = Shape(0)}),
                       F.max(picked, {.axis = Shape(0)}),
                       F.min(taken),
                       F.norm(begin, {.axis = Shape(1)}),
                       F.sum(ends, {.axis = Shape(0)}),
                       F.argmax(taken, {.axis = 0}),
                       F.mean(F.concat(taken, begin)),
                       F.sum(x.slice(0, 1) + taken)};
  };
  auto by_shape = [](auto F, auto x, auto index) {  // reads the shape: traced for each
    const int64_t n = x.shape()[0];
    return std::vector{F.sum(x.slice(0, (n + 1) / 2), {.axis = Shape(0)}), F.mean(F.take(x.slice(n / 2, n), index)),
                       F.sum(x[-1]) * double(n)};
  };
  auto check = [&](auto body, bool exact) {
    auto runs = std::make_shared<int>(0);
    Lambda block([=](auto F, auto x, auto index) {
      ++*runs;
      return body(F, x, index);
    });
    block.hybridize({.static_alloc = true, .exact = exact});
    auto at = [&](int n) {
      INFO("n = " << n);
      const NDArray x = numbers({n, 3}, uint32_t(n)),
                    index = nd.floor((numbers({n}, uint32_t(n) + 99) + 1) * (n / 2.0));
      const std::vector<NDArray> got = block(x, index), expected = body(nd, x, index);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("result " << i);
        if (exact) {
          REQUIRE(same_bits(got[i], expected[i]));
        } else {
          REQUIRE(got[i].shape() == expected[i].shape());
          require_close(got[i], values(expected[i]), 1e-5);
        }
      }
    };
    for (int n = 1; n <= 64; ++n) at(n);
    for (int n = 64; n >= 1; --n) at(n);
    for (int n : {5, 6, 5, 7, 6, 5}) at(n);  // plans that are there
    return *runs;
  };
  for (bool exact : {true, false}) {
    CHECK(check(by_data, exact) == 1);
    CHECK(check(by_shape, exact) > 64);
  }
}

}  // namespace hybrid_block_test

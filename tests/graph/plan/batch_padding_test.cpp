// Plans for buckets of rows, and the policies of the plan cache.
#include "kaon/graph/plan/batch_padding.h"

#include <functional>
#include <thread>

#include "kaon/engine/engine.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/tests/graph/support.h"

namespace batch_padding_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

constexpr HybridizeOptions by_bucket{.static_alloc = true, .policy = PlanPolicy::bucket};

void require_same_values(const NDArray& got, const NDArray& expected) {
  REQUIRE(got.shape() == expected.shape());
  REQUIRE(got.dtype() == expected.dtype());
  require_near(got, expected.asvector<double>(), 1e-5);
}

// One function of an array, of numbers that are the same for all rows and of whole numbers, a row each.
template <class A>
using Body = std::function<std::vector<A>(const Functions<A>& F, A x, A w, A index)>;

struct Net {
  template <class F>
  Net(F body, const Shape& row, HybridizeOptions options = by_bucket)
      : eager(body),
        graph(Symbol::group(body(sym, sym.var("data"), sym.var("w"), sym.var("index"))),
              names(Symbol::group(body(sym, sym.var("data"), sym.var("w"), sym.var("index")))), options, "net", nullptr,
              nullptr, 2),
        row(row) {}

  // The data come first, also where the program uses one of them only.
  static std::vector<std::string> names(const Symbol&) { return {"data", "index", "w"}; }
  std::vector<NDArray> arrays(int64_t n) const {
    Shape s(n);
    for (int64_t d : row) s.push_back(d);
    return {numbers(s, uint32_t(n) + 7), nd.floor((numbers({n}, uint32_t(n) + 99) + 1) * 2.0), numbers({4, 4}, 3)};
  }
  void check(int64_t n) {
    INFO("n = " << n);
    const auto a = arrays(n);
    const std::vector<NDArray> got = call(graph, a), expected = eager(nd, a[0], a[2], a[1]);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("output " << i);
      require_same_values(got[i], expected[i]);
    }
  }

  Body<NDArray> eager;
  CachedGraph graph;
  Shape row;
};

}  // namespace

TEST_CASE("bucket: one plan for all numbers of rows up to a power of two, one operation a call") {
  Engine engine;
  EngineScope scope(engine);
  Net net(
      [](auto F, auto x, auto w, auto) {
        auto h = F.tanh(F.dot(x, w)) + 1;
        auto s = F.softmax(h);
        return std::vector{s, s, x, w, F.reshape(h, {0, 2, 2}), F.log(F.abs(x))};
      },
      {4});
  for (int time = 0; time < 2; ++time) {
    for (int n = 0; n <= 17; ++n) net.check(n);
  }
  for (int n : {17, 1, 16, 9, 2, 31, 32}) net.check(n);
  const PlanStats s = net.graph.stats();
  CHECK(s.misses == 7);  // 0, 1, 2, 4, 8, 16, 32 rows
  CHECK(s.hits == 36 + 7 - 7);
  CHECK(s.evictions == 0);
  CHECK_THAT(net.graph.last_miss(), Contains("data dim 0: 16 -> 32"));
  auto a = net.arrays(11);
  for (const NDArray& x : a) x.wait_to_read();
  const uint64_t before = engine.stats().ops;
  auto y = call(net.graph, a);
  CHECK(engine.stats().ops == before + 1);
  CHECK(y[0].shape() == Shape(11, 4));
}

TEST_CASE("bucket: sizes of the user's; more rows than the largest are refused") {
  Net net([](auto F, auto x, auto, auto) { return std::vector{F.sum(x, {.axis = Shape(1)})}; }, {4},
          {.policy = PlanPolicy::bucket, .buckets = Shape(3, 10)});
  for (int n : {1, 3, 10, 4, 2, 9}) net.check(n);
  CHECK(net.graph.stats().misses == 2);
  CHECK_THROWS_WITH(net.check(11), Contains("[net] the largest bucket has 10 rows, got 11"));
  for (const Shape& sizes : {Shape(4, 4), Shape(8, 4), Shape(0, 4), Shape(-1)}) {
    CHECK_THROWS_WITH(CachedGraph(sym.var("data"), {"data"}, {.buckets = sizes}, "net"),
                      Contains("[hybridize] buckets"));
  }
  CHECK_THROWS_WITH(CachedGraph(sym.var("data"), {"data"}, {.exact = true, .policy = PlanPolicy::bucket}, "net"),
                    Contains("policy bucket is not exact"));
}

TEST_CASE("bucket: operators that keep rows apart equal the imperative run") {
  auto check = [](auto body, const Shape& row = {4}) {
    Net net(body, row);
    for (int n : {1, 2, 3, 5, 6, 7, 8, 9, 5, 1}) net.check(n);
  };
  check([](auto F, auto x, auto w, auto) {
    return std::vector{x * F.slice_axis(w, 0, 0, 1),
                       x + F.reshape(F.slice_axis(w, 0, 0, 1), {4}),
                       x * 2 - x,
                       F.broadcast_maximum(x, F.mean(x, {.axis = Shape(1), .keepdims = true})),
                       F.clip(x, 0, 1),
                       F.where(x > 0, x, -x),
                       F.add_n(x, x, x),
                       F.cast(x, DType::float64)};
  });
  check([](auto F, auto x, auto w, auto) {
    return std::vector{F.sum(x, {.axis = Shape(1)}),
                       F.max(x, {.axis = Shape(-1), .keepdims = true}),
                       F.mean(x, {.axis = Shape(0), .exclude = true}),
                       F.norm(x, {.axis = Shape(1)}),
                       F.argmax(x, {.axis = 1}),
                       F.softmax(x),
                       F.log_softmax(x, {.axis = 1}),
                       F.FullyConnected(x, w, F.slice_axis(w, 0, 0, 4).reshape({16}).slice(0, 4), {.num_hidden = 4})};
  });
  check([](auto F, auto x, auto w, auto index) {
    return std::vector{F.take(w, index),
                       F.Embedding(index, w, {.input_dim = 4, .output_dim = 4}),
                       F.pick(x, index),
                       F.one_hot(index, 5),
                       F.take(x, F.array({2, 0}), {.axis = 1}),
                       F.where(index, x, x * 2)};
  });
  check([](auto F, auto x, auto w, auto) {
    auto parts = F.split(x, 2, {.axis = 1});
    return std::vector{F.concat(op::Concat{.dim = 1}, parts[1], x),
                       F.stack(op::Stack{.axis = 1}, x, x),
                       F.slice_axis(x, 1, 1, 3),
                       F.slice(x, {std::nullopt, 1}, {std::nullopt, 3}),
                       F.flip(x, {1}),
                       F.tile(x, {1, 2}),
                       F.repeat(x, 2, 1),
                       F.dot(x, w, {.transpose_b = true}),
                       F.expand_dims(x, 1),
                       F.reshape(x, {-1, 2, 2}),
                       F.flatten(F.reshape(x, {0, 2, 2})),
                       w};
  });
  check(
      [](auto F, auto x, auto, auto) {
        return std::vector{F.transpose(x, {0, 2, 1}), F.batch_dot(x, F.swapaxes(x, 1, 2)), F.flatten(x),
                           F.sum(x, {.axis = Shape(1, 2)}),
                           F.Pooling(F.expand_dims(x, 1), {.kernel = {2, 2}, .pool_type = PoolType::avg})};
      },
      {3, 4});
}

TEST_CASE("bucket: what mixes rows is refused by the name of the operator") {
  auto refused = [](auto body, const std::string& what, const Shape& row = {4}) {
    Net net(body, row);
    for (int64_t n : {8, 3}) {
      const std::string message = message_of([&] { call(net.graph, net.arrays(n)); });
      CHECK_THAT(message, Contains("[net] policy bucket needs rows that do not depend on each other"));
      CHECK_THAT(message, Contains(what));
    }
    CHECK(net.graph.stats().misses == 0);
  };
  refused([](auto F, auto x, auto, auto) { return std::vector{F.sum(x)}; }, "(sum)");
  refused([](auto F, auto x, auto, auto) { return std::vector{x - F.mean(x, {.axis = Shape(0), .keepdims = true})}; },
          "(mean)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.max(x, {.axis = Shape(1), .exclude = true})}; },
          "(max)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.norm(x)}; }, "(norm)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.argmax(x, {.axis = 0})}; }, "(argmax)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.softmax(x, {.axis = 0})}; }, "(softmax)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.softmax(x, {.axis = -2})}; }, "(softmax)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.dot(x, x, {.transpose_a = true})}; }, "(dot)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.dot(x, x, {.transpose_b = true})}; }, "(dot)");
  refused([](auto F, auto x, auto w, auto) { return std::vector{F.dot(w, x, {.transpose_b = true})}; }, "(dot)");
  refused([](auto F, auto x, auto w, auto) { return std::vector{F.broadcast_like(w.slice(0, 1), x)}; },
          "(broadcast_like)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.transpose(x)}; }, "(transpose)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.reshape(x, {-1, 2})}; }, "(Reshape)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.flip(x, {0})}; }, "(reverse)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.slice_axis(x, 0, 0, 2)}; }, "(slice_axis)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.slice(x, {1}, {std::nullopt})}; }, "(slice)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.concat(op::Concat{.dim = 0}, x, x)}; }, "(Concat)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.stack(op::Stack{.axis = -3}, x, x)}; }, "(stack)");
  refused([](auto F, auto x, auto, auto index) { return std::vector{F.take(x, index)}; }, "(take)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.repeat(x, 2, 0)}; }, "(repeat)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.tile(x, {2, 1})}; }, "(tile)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.expand_dims(x, 0)}; }, "(expand_dims)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.shuffle(x)}; }, "(_shuffle)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.Dropout(x, {.mode = DropoutMode::always})}; },
          "(Dropout)");
  refused(
      [](auto F, auto x, auto, auto) {
        return std::vector{F.gather_nd(x, F.array({0, 1}, Shape(1, 2)))};
      },
      "(gather_nd)");
  refused([](auto F, auto x, auto, auto) { return std::vector{F.sum(F.reshape(F.transpose(x), {-1}))}; },
          "(transpose)");
}

TEST_CASE("bucket: numbers of the program that stand for one number of rows are refused") {
  // Right for 8 rows, which is the bucket, and for no other number.
  for (int64_t n : {8, 5}) {
    Net reshaped([](auto F, auto x, auto, auto) { return std::vector{F.reshape(x, {8, -1})}; }, {8});
    CHECK_THROWS_WITH(call(reshaped.graph, reshaped.arrays(n)),
                      Contains("(Reshape) makes (8, 8) of 8 rows and (8, 9) of 9"));
    Net added([](auto F, auto x, auto, auto) { return std::vector{x + F.ones({8, 4})}; }, {4});
    CHECK_THROWS_AS(call(added.graph, added.arrays(n)), ShapeError);
  }
}

TEST_CASE("bucket: data must have rows, all as many") {
  CachedGraph graph(sym.var("a") + sym.var("b"), {"a", "b"}, by_bucket, "net", nullptr, nullptr, 2);
  CHECK_THROWS_WITH(call(graph, {numbers({2, 3}), numbers({1, 3})}),
                    Contains("[net] policy bucket needs data whose first dimensions are equal, got (2, 3) and (1, 3)"));
  CHECK_THROWS_AS(call(graph, {numbers({}), numbers({})}), ShapeError);
  CHECK(call(graph, {numbers({2, 3}), numbers({2, 3})})[0].shape() == Shape(2, 3));
}

TEST_CASE("bucket: calls that train or are recorded are planned for their very shapes") {
  CachedGraph graph(sym.tanh(sym.var("data")) * sym.var("w"), {"data", "w"}, by_bucket, "net");
  NDArray w = numbers({3});
  w.attach_grad();
  for (int n : {5, 6}) {
    const NDArray x = numbers({n, 3});
    autograd::record([&] { return call(graph, {x, w})[0]; }).backward();
    const NDArray got = w.grad().copy();
    autograd::record([&] { return nd.tanh(x) * w; }).backward();
    require_same_values(got, w.grad());
    require_same_values(call(graph, {x, w})[0], nd.tanh(x) * w);
  }
  CHECK(graph.stats().misses == 3);  // two that are recorded, one bucket
}

TEST_CASE("users row 32: rows of gathers and slices over n = 1 to 64, in buckets") {
  Net net(
      [](auto F, auto x, auto w, auto index) {
        auto taken = F.take(w, index), part = F.slice_axis(x, 1, 1, 3);
        return std::vector{F.sum(taken, {.axis = Shape(1)}),
                           F.mean(part, {.axis = Shape(1)}),
                           F.max(taken, {.axis = Shape(1)}),
                           F.norm(part, {.axis = Shape(1)}),
                           F.argmax(taken, {.axis = 1}),
                           F.pick(taken, index),
                           F.mean(F.concat(taken, part), {.axis = Shape(1)}),
                           F.sum(part, {.axis = Shape(1)}) * F.pick(x, index)};
      },
      {4});
  for (int n = 1; n <= 64; ++n) net.check(n);
  for (int n = 64; n >= 1; --n) net.check(n);
  CHECK(net.graph.stats().misses == 7);
  CHECK(net.graph.stats().hits == 121);
}

TEST_CASE("bucket: four threads with other numbers of rows at a time") {
  Net net([](auto F, auto x, auto w, auto) { return std::vector{F.relu(F.dot(x, w)), F.softmax(x)}; }, {4});
  net.check(16);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto a = net.arrays(9 + (i + t) % 8);
        const NDArray y = call(net.graph, a)[0], expected = nd.relu(nd.dot(a[0], a[2]));
        wrong += y.shape() != expected.shape() || (nd.max(nd.abs(y - expected))).asscalar<float>() > 1e-5f;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(net.graph.stats().misses == 1);
}

TEST_CASE("users row 30: policy error: other shapes and dtypes are refused, other modes are planned") {
  CachedGraph graph(sym.tanh(sym.var("data")), {"data"}, {.static_alloc = true, .policy = PlanPolicy::error}, "net");
  NDArray x = numbers({4, 3});
  x.attach_grad();
  call(graph, {x});
  for (int time = 0; time < 2; ++time) {
    CHECK_THROWS_AS(call(graph, {numbers({5, 3})}), StateError);
    CHECK_THROWS_WITH(call(graph, {numbers({5, 3})}),
                      Contains("[net] policy error: nothing is planned for data dim 0: 4 -> 5; plans: 1"));
    CHECK_THROWS_WITH(call(graph, {x.astype(DType::float64)}), Contains("data dtype: float32 -> float64; plans: 1"));
  }
  autograd::record([&] { return call(graph, {x})[0]; }).backward();
  autograd::train_mode([&] { return call(graph, {numbers({6, 3})}); });
  CHECK_THROWS_WITH(autograd::train_mode([&] { return call(graph, {x}); }), Contains("data dim 0: 6 -> 4; plans: 3"));
  CHECK(same_bits(call(graph, {x})[0], nd.tanh(x)));
  const PlanStats s = graph.stats();
  CHECK(s.hits == 1);
  CHECK(s.misses == 3);
}

namespace {
std::vector<std::string> lines;
}

TEST_CASE("users row 30: one line for each plan that is made, to whoever asks") {
  lines.clear();
  CachedGraph graph(sym.tanh(sym.var("data")), {"data"},
                    {.on_miss = [](std::string_view line) { lines.emplace_back(line); }}, "net");
  for (int n : {4, 4, 5, 4, 5}) call(graph, {numbers({n, 3})});
  CHECK(lines == std::vector<std::string>{"[net] new plan: first call", "[net] new plan: data dim 0: 4 -> 5"});
}

}  // namespace batch_padding_test

// Arrays that are changed in place between a recorded call and backward(): a gradient that needs their old values is
// refused, one that does not is right.
#include <thread>

#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace changed_arrays_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

NDArray leaf(std::vector<float> values) {
  NDArray x = nd.array(values, Shape(int64_t(values.size())));
  x.attach_grad();
  return x;
}

// d(sum(head))/dx.
std::vector<double> gradient(const NDArray& head, const NDArray& x) {
  head.backward();
  return values(x.grad());
}

// The sum of query * cache after x was written into the cache at `position`, as the keys of a decoder are.
struct Cached : gluon::HybridBlock<Cached> {
  Cached() : HybridBlock("cached") {}
  auto hybrid_forward(auto F, auto query, auto cache, auto x, auto position) {
    F.cache_append(cache, x, position);
    return F.sum(query * cache);
  }
};

}  // namespace

TEST_CASE("changed arrays: a factor that was written to is refused, with both lines", "[gluon]") {
  NDArray x = leaf({1, 2, 3}), w = nd.array({2, 2, 2});
  const int recorded = __LINE__ + 1;
  NDArray y = autograd::record([&] { return x * w; });
  SECTION("a constant that is refilled") {
    const int changed = __LINE__ + 1;
    w.assign(100);
    const std::string message = message_of([&] { y.backward(); });
    CHECK_THAT(message, Contains("input 1 of elemwise_mul") || Contains("input 1 of broadcast_mul"));
    CHECK_THAT(message, Contains(fmt::format("changed_arrays_test.cpp:{}, was", recorded)));
    CHECK_THAT(message, Contains(fmt::format("changed_arrays_test.cpp:{}:", changed)));
    CHECK_THROWS_AS(y.backward(), StateError);
  }
  SECTION("a number added in place") {
    w += 1;
    CHECK_THROWS_AS(y.backward(), StateError);
  }
  SECTION("one row, through a view") {
    w.slice(1, 2).assign(5);
    CHECK_THROWS_AS(y.backward(), StateError);
  }
  SECTION("by slice_assign") {
    w.slice_assign(Shape(0), Shape(1), 7);
    CHECK_THROWS_AS(y.backward(), StateError);
  }
  SECTION("a copy into it") {
    nd.array({1, 1, 1}).copyto(w);
    CHECK_THROWS_AS(y.backward(), StateError);
  }
  SECTION("nothing is left behind: the next computation is fine") {
    w.assign(100);
    CHECK_THROWS_AS(y.backward(), StateError);
    y = autograd::record([&] { return x * w; });
    CHECK(gradient(y, x) == std::vector<double>{100, 100, 100});
  }
}

TEST_CASE("changed arrays: a leaf that was changed", "[gluon]") {
  NDArray x = leaf({1, 2, 3});
  NDArray y = autograd::record([&] { return nd.square(x); });
  x += 5;
  CHECK_THROWS_AS(y.backward(), StateError);
}

TEST_CASE("changed arrays: a result that its own gradient reads", "[gluon]") {
  NDArray x = leaf({0, 0, 0});
  NDArray y = autograd::record([&] { return nd.sigmoid(x); });
  y.assign(1);
  CHECK_THROWS_AS(y.backward(), StateError);
}

TEST_CASE("changed arrays: values that no gradient reads may change", "[gluon]") {
  NDArray x = leaf({1, 2, 3}), c = nd.array({4, 5, 6});
  SECTION("terms of a sum") {
    NDArray y = autograd::record([&] { return x + c; });
    c.assign(0), x.assign(0);
    CHECK(gradient(y, x) == std::vector<double>{1, 1, 1});
  }
  SECTION("what is summed") {
    NDArray y = autograd::record([&] { return x.sum(); });
    x.assign(0);
    CHECK(gradient(y, x) == std::vector<double>{1, 1, 1});
  }
  SECTION("what is reshaped, sliced, joined, repeated") {
    NDArray y = autograd::record([&] {
      return nd.sum(nd.concat(nd.reshape(x, {3, 1}), nd.tile(nd.reshape(x, {3, 1}), {1, 2})));
    });
    x.assign(0);
    CHECK(gradient(y, x) == std::vector<double>{3, 3, 3});
  }
  SECTION("the one factor whose gradient is not wanted from it") {
    NDArray y = autograd::record([&] { return x * c; });
    x.assign(0);
    CHECK(gradient(y, x) == std::vector<double>{4, 5, 6});
  }
  SECTION("an output that the gradient does not need") {
    NDArray y = autograd::record([&] { return x * c; });
    y.assign(0);
    CHECK(gradient(y, x) == std::vector<double>{4, 5, 6});
  }
  SECTION("after backward") {
    NDArray y = autograd::record([&] { return x * x; });
    y.backward();
    x.assign(0);
    CHECK(values(x.grad()) == std::vector<double>{2, 4, 6});
  }
}

TEST_CASE("changed arrays: a hybridized net refuses as the imperative one does", "[gluon]") {
  Mlp net = ready(Mlp());
  NDArray x = numbers({4, 6});
  x.attach_grad();
  net(x);
  for (bool hybrid : {false, true}) {
    if (hybrid) net.hybridize({.static_alloc = true, .static_shape = true});
    NDArray y = autograd::record([&] { return net(x); });
    SECTION(hybrid ? "hybridized: the input" : "imperative: the input") {
      x *= 2;
      CHECK_THAT(message_of([&] { y.backward(); }), Contains("was changed in place at"));
    }
    SECTION(hybrid ? "hybridized: a parameter" : "imperative: a parameter") {
      net.fc2.weight.data() *= 2;
      CHECK_THAT(message_of([&] { y.backward(); }), Contains("was changed in place at"));
    }
    SECTION(hybrid ? "hybridized: a bias" : "imperative: a bias, which no gradient reads") {
      net.fc2.bias.data() += 1;
      y.backward();
    }
  }
}

TEST_CASE("changed arrays: a step between a recorded call and its backward is refused", "[gluon]") {
  Mlp net = ready(Mlp());
  const NDArray x = numbers({4, 6});
  net(x);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  for (bool hybrid : {false, true}) {
    if (hybrid) net.hybridize();
    const NDArray first = autograd::record([&] { return net(x).sum(); });
    const NDArray second = autograd::record([&] { return net(x).sum(); });
    first.backward();
    trainer.step(4);
    CHECK_THROWS_AS(second.backward(), StateError);
    autograd::record([&] { return net(x).sum(); }).backward();  // a new call is fine
    trainer.step(4);
  }
}

TEST_CASE("changed arrays: running statistics may move between two calls and their gradients", "[gluon]") {
  for (bool hybrid : {false, true}) {
    nn::HybridSequential net(nn::Dense(5), nn::BatchNorm());
    net = ready(net);
    NDArray x = numbers({4, 6});
    x.attach_grad();
    if (hybrid) net.hybridize();
    const NDArray loss = autograd::record([&] { return nd.square(net(x)).sum() + nd.square(net(x * 2)).sum(); });
    loss.backward();
    const NDArray g = autograd::record([&] { return autograd::grad(nd.square(net(x)).sum(), x, true); });
    autograd::record([&] { return net(x); });
    g.backward();
    // While predicting, the gradient is the one with the statistics of the call, or it is refused.
    const auto predict = [&] { return autograd::record([&] { return nd.square(net(x)).sum(); }, false); };
    predict().backward();
    const std::vector<double> expected = values(x.grad());
    const NDArray fixed = predict();
    autograd::record([&] { return net(x); });
    const std::string message = message_of([&] { fixed.backward(); });
    if (message == "nothing was thrown") {
      require_close(x.grad(), expected);
    } else {
      CHECK_THAT(message, Contains("was changed in place at"));
    }
  }
}

TEST_CASE("changed arrays: a cache that a call writes and its gradient reads", "[gluon]") {
  Cached net;
  NDArray query = nd.ones({1, 1, 3, 1}), cache = nd.zeros({1, 1, 3, 1});
  query.attach_grad();
  const auto call = [&](float x, double position) {
    const NDArray row = nd.full({1, 1, 1, 1}, x), at = nd.array({position});
    return autograd::record([&] { return net(query, cache, row, at); });
  };
  std::vector<double> expected(3);
  for (size_t p = 0; p < 3; ++p) {
    const NDArray y = call(float(p + 1), double(p));
    expected[p] = double(p + 1);
    CHECK(values(y)[0] == double((p + 1) * (p + 2)) / 2);
    CHECK(gradient(y, query) == expected);
  }
  const NDArray first = call(10, 0), second = call(20, 1);
  CHECK(gradient(second, query) == std::vector<double>{10, 20, 3});
  CHECK_THROWS_AS(first.backward(), StateError);  // what it read is gone
  net.hybridize();
  CHECK_THROWS_AS(call(1, 0), TraceError);  // only changes an array
}

TEST_CASE("changed arrays: threads may write to one array at once", "[gluon][threads]") {
  NDArray w = nd.zeros({1000});
  NDArray x = leaf(std::vector<float>(1000, 1));
  std::vector<std::thread> threads;
  NDArray y = autograd::record([&] { return x * w; });
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) w += 1;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(values(w)[0] == 400);
  CHECK_THROWS_AS(y.backward(), StateError);
}

}  // namespace changed_arrays_test

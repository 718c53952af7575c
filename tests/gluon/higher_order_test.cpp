// Gradients of gradients through hybridized nets: bit-equal to the imperative run with the imperative kernels.
#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace higher_order_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

enum class Run { imperative, exact, fast };

using Results = std::vector<std::vector<double>>;

// y, its derivatives by x up to `order` - 1, and what backward() of the last one leaves at x and the parameters.
template <class Net>
Results derivatives(Net net, NDArray x, int order, Run run, bool children_only = false, int threads = 1) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  x = nd.array(x.asvector<float>(), x.shape());
  net = ready(net, 7);
  net(x);  // completes parameters
  if (run != Run::imperative) {
    const HybridizeOptions options{.static_alloc = true, .exact = run == Run::exact};
    if (children_only) {
      for (size_t i = 0; i < net.size(); i += 2) gluon::Block(net[int64_t(i)]).hybridize(options);
    } else {
      net.hybridize(options);
    }
  }
  kaon::random::seed(11);
  x.attach_grad();
  Results all;
  autograd::record([&] {
    NDArray d = net(x);
    all.push_back(values(d));
    for (int k = 1; k < order; ++k) {
      d = autograd::grad(d, x, true);
      all.push_back(values(d));
    }
    return d;
  }).backward();
  all.push_back(values(x.grad()));
  for (const gluon::Parameter& p : net.collect_params()) {
    all.push_back(values(p.grad_req() == GradReq::null ? p.data() : p.grad()));
  }
  engine.wait_all();
  return all;
}

bool any_nonzero(const std::vector<double>& v) {
  return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; });
}

// Orders 2 and 3; at these the derivatives by x must not vanish.
template <class Make>
void check_orders(Make make, const Shape& shape, bool children_only = false) {
  const NDArray x = numbers(shape, 5);
  for (int order : {2, 3}) {
    const Results expected = derivatives(make(), x, order, Run::imperative, children_only);
    REQUIRE(any_nonzero(expected[size_t(order)]));
    for (int threads : {0, 2}) {
      INFO("order " << order << ", " << threads << " threads");
      const Results got = derivatives(make(), x, order, Run::exact, children_only, threads);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("result " << i);
        if (children_only) {  // what comes to a child from several sides is summed in another order
          require_close(got[i], expected[i], 1e-4, 1e-6);
        } else {
          REQUIRE(got[i] == expected[i]);  // every bit
        }
      }
    }
    const Results fast = derivatives(make(), x, order, Run::fast, children_only);
    for (size_t i = 0; i < fast.size(); ++i) require_close(fast[i], expected[i], 1e-3, 1e-4);
  }
}

nn::HybridSequential smooth_mlp() {
  return nn::HybridSequential(nn::Dense(8, {.activation = "tanh"}), nn::Dense(6, {.activation = "sigmoid"}),
                              nn::Dense(3, {.activation = "tanh"}));
}

}  // namespace

TEST_CASE("higher order: an MLP", "[gluon]") { check_orders(smooth_mlp, {4, 5}); }

TEST_CASE("higher order: convolutions, maxima and means over windows", "[gluon]") {
  check_orders(
      [] {
        return nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3, .activation = "tanh"}),
                                    nn::MaxPool2D({.pool_size = 2}),
                                    nn::Conv2D(5, {.kernel_size = 3, .padding = 1, .activation = "sigmoid"}),
                                    nn::MaxPool2D({.pool_size = 3, .strides = 1}), nn::AvgPool2D({.pool_size = 2}),
                                    nn::Dense(3, {.activation = "tanh"}));
      },
      {2, 2, 12, 12});
}

namespace {
struct NormPool : gluon::HybridBlock<NormPool> {
  const int p;
  explicit NormPool(int p) : p(p) {}
  auto hybrid_forward(auto F, auto x) {
    return F.Pooling(x, {.kernel = {2, 2}, .pool_type = PoolType::lp, .stride = {1, 2}, .p_value = p});
  }
};
}  // namespace

TEST_CASE("higher order: p-norms of windows", "[gluon]") {
  for (int p : {2, 3}) {
    check_orders(
        [p] {
          return nn::HybridSequential(nn::Conv2D(3, {.kernel_size = 2, .activation = "tanh"}), NormPool(p),
                                      nn::Dense(3, {.activation = "tanh"}));
        },
        {2, 2, 6, 6});
  }
}

TEST_CASE("higher order: BatchNorm in training changes its running statistics once", "[gluon]") {
  check_orders(
      [] {
        return nn::HybridSequential(nn::Conv2D(3, {.kernel_size = 3}), nn::BatchNorm(), nn::Activation("tanh"),
                                    nn::Dense(4), nn::BatchNorm(), nn::Activation("sigmoid"));
      },
      {6, 2, 6, 6});
}

TEST_CASE("higher order: LayerNorm and GELU", "[gluon]") {
  check_orders(
      [] {
        return nn::HybridSequential(nn::Dense(7), nn::LayerNorm(), nn::GELU(), nn::Dense(3), nn::LeakyReLU(0.1),
                                    nn::Activation("tanh"));
      },
      {5, 4});
}

TEST_CASE("higher order: Dropout keeps the mask of the forward", "[gluon]") {
  check_orders(
      [] {
        return nn::HybridSequential(nn::Dense(32, {.activation = "tanh"}), nn::Dropout(0.4),
                                    nn::Dense(16, {.activation = "tanh"}), nn::Dropout(0.2),
                                    nn::Dense(3, {.activation = "sigmoid"}));
      },
      {6, 5});
}

TEST_CASE("higher order: a Dropout that drops nothing while predicting", "[gluon]") {
  NDArray x = numbers({2, 3}, 5);
  for (const Shape& axes : {Shape(), Shape(1)}) {
    nn::HybridSequential net(nn::Dense(3, {.activation = "tanh"}), nn::Dropout(0.5, {.axes = axes}));
    net = ready(net, 7);
    x.attach_grad();
    const auto second = [&] {
      NDArray g = autograd::record([&] { return autograd::grad(net(x), x, true); }, false);
      g.backward();
      return std::vector{values(g), values(x.grad())};
    };
    const auto expected = second();
    for (bool exact : {true, false}) {
      net.hybridize({.exact = exact});
      const auto got = second();
      for (size_t i = 0; i < got.size(); ++i) require_close(got[i], expected[i], exact ? 0 : 1e-5, exact ? 0 : 1e-6);
    }
  }
}

// Three gradients meet at x, one of them through a Dropout.
struct Meeting : gluon::HybridBlock<Meeting> {
  auto hybrid_forward(auto F, auto x) {
    auto dropped = F.Dropout(x, {.p = 0.25});
    auto other = F.tanh(x);
    return F.exp(dropped) * 0.7 + other * 0.9 + x * x;
  }
};

TEST_CASE("higher order: exact gradients meet in order at a Dropout that drops nothing", "[gluon]") {
  for (int order : {1, 2, 3}) {
    std::vector<std::vector<double>> results;
    for (bool hybridized : {false, true}) {
      Meeting net;
      if (hybridized) net.hybridize({.exact = true});
      NDArray x = numbers({30, 7}, 5);
      x.attach_grad();
      autograd::record(
          [&] {
            NDArray y = net(x);
            for (int k = 1; k < order; ++k) y = autograd::grad(y, x, true);
            return y;
          },
          false)
          .backward();
      results.push_back(values(x.grad()));
    }
    INFO("order " << order);
    CHECK(results[0] == results[1]);
  }
}

// Only the second of two results is used: zeros are the head of the first.
struct BiasGradient : gluon::HybridBlock<BiasGradient> {
  auto hybrid_forward(auto F, auto dy, auto x) {
    return F.log1p(F._backward_Convolution_weight(
        dy, x, {.kernel = {2, 1, 3}, .pad = {0, 1, 1}, .num_filter = 2, .no_bias = false})[1]);
  }
};

TEST_CASE("higher order: exact takes the imperative kernels where a result has no head", "[gluon]") {
  std::vector<std::vector<double>> results;
  for (bool hybridized : {false, true}) {
    BiasGradient net;
    if (hybridized) net.hybridize({.exact = true});
    NDArray dy = nd.square(numbers({3, 2, 4, 6, 5}, 3)), x = numbers({3, 3, 5, 4, 5}, 4);
    dy.attach_grad(), x.attach_grad();
    NDArray g = autograd::record([&] { return autograd::grad(net(dy, x), dy, true); });
    g.backward(numbers(g.shape(), 5));
    for (const NDArray& a : {g, dy.grad(), x.grad()}) results.push_back(values(a));
  }
  for (size_t i = 0; i < 3; ++i) {
    INFO("result " << i);
    CHECK(results[i] == results[i + 3]);
  }
  CHECK(any_nonzero(results[1]));
}

namespace {
// The gradient of the output layer does not depend on what arrives: its program and the gradient of that compute it.
struct Scored : gluon::HybridBlock<Scored> {
  auto hybrid_forward(auto F, auto x, auto w) {
    return std::pair(F.SoftmaxOutput(x, F.zeros_like(F.sum(x, {.axis = Shape(1)}))) * w, x);
  }
};
}  // namespace

TEST_CASE("higher order: a second gradient that the first one's program has computed", "[gluon]") {
  auto run = [](bool hybridized, bool exact) {
    Scored net;
    if (hybridized) net.hybridize({.exact = exact});
    NDArray x = numbers({3, 4}, 6), w = numbers({3, 4}, 7);
    x.attach_grad();
    w.attach_grad();
    Results all;
    autograd::record([&] {
      const auto [y, same] = net(x, w);
      const NDArray weights = numbers({3, 4}, 8);
      const std::vector<NDArray> heads{y, same}, weighed{weights, weights}, variables{x, w};
      const std::vector<NDArray> g = autograd::grad(heads, variables, weighed, true, true);
      all = {values(y), values(g[0]), values(g[1])};
      return nd.sum(g[1] * weights);
    }).backward();
    all.push_back(values(x.grad()));
    return all;
  };
  const Results expected = run(false, false);
  REQUIRE(any_nonzero(expected[3]));
  REQUIRE(run(true, true) == expected);
  const Results fast = run(true, false);
  for (size_t i = 0; i < fast.size(); ++i) require_close(fast[i], expected[i], 1e-5, 1e-6);
}

TEST_CASE("higher order: every other child of an imperative parent is hybridized", "[gluon]") {
  check_orders(smooth_mlp, {4, 5}, true);
}

TEST_CASE("higher order: a gradient penalty is trained as imperatively", "[gluon]") {
  auto train = [](Run run) {
    nn::HybridSequential net = ready(nn::HybridSequential(nn::Dense(16, {.activation = "tanh"}),
                                                          nn::Dense(16, {.activation = "tanh"}), nn::Dense(1)),
                                     3);
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
    if (run != Run::imperative) net.hybridize({.static_alloc = true, .exact = run == Run::exact});
    for (int i = 0; i < 20; ++i) {
      NDArray x = numbers({8, 4}, uint32_t(i + 1));
      x.attach_grad();
      autograd::record([&] {
        NDArray y = net(x);
        NDArray slope = autograd::grad(y, x, true);
        NDArray length = nd.sqrt(nd.sum(nd.square(slope), {.axis = Shape(1)}) + 1e-12);
        return nd.mean(y) + nd.mean(nd.square(length - 1));
      }).backward();
      trainer.step(1);
    }
    Results result;
    for (const gluon::Parameter& p : net.collect_params()) result.push_back(values(p.data()));
    return result;
  };
  const Results expected = train(Run::imperative);
  // The two parts of a parameter's gradient are summed in another order.
  for (Run run : {Run::exact, Run::fast}) {
    const Results got = train(run);
    for (size_t i = 0; i < got.size(); ++i) require_close(got[i], expected[i], 1e-3, 1e-5);
  }
}

TEST_CASE("higher order: each backward is one operation, planned once", "[gluon]") {
  auto net = ready(smooth_mlp());
  NDArray x = numbers({4, 5});
  net(x);
  net.hybridize({.static_alloc = true});
  x.attach_grad();
  Engine& engine = Engine::current();
  for (int time = 0; time < 3; ++time) {
    NDArray y = autograd::record([&] { return net(x); });
    uint64_t before = engine.stats().ops;
    NDArray d = autograd::record([&] { return autograd::grad(y, x, true); });
    CHECK(engine.stats().ops == before + 1);
    before = engine.stats().ops;
    NDArray plain = autograd::grad(d, x, false);
    CHECK(engine.stats().ops == before + 1);
    d.wait_to_read(), plain.wait_to_read();
  }
}

TEST_CASE("higher order: what has no second gradient says so, and only where one is taken", "[gluon]") {
  for (bool hybridized : {false, true}) {
    INFO(hybridized);
    auto net = ready(nn::HybridSequential(nn::Dense(4, {.activation = "tanh"}),
                                          nn::HybridLambda([](auto F, auto x) { return F.SoftmaxActivation(x); })));
    NDArray x = numbers({3, 5});
    net(x);
    if (hybridized) net.hybridize();
    x.attach_grad();
    NDArray d = autograd::record([&] { return autograd::grad(net(x), x, true); });
    CHECK_NOTHROW(d.wait_to_read());
    CHECK_THROWS_AS(d.backward(), StateError);
    d = autograd::record([&] { return autograd::grad(net(x), x, true); });
    CHECK_THAT(message_of([&] { d.backward(); }), Contains("[_backward_SoftmaxActivation] has no gradient"));
  }
}

namespace {
struct SparseActivations : gluon::HybridBlock<SparseActivations> {
  auto hybrid_forward(auto F, const auto& x, const auto& average) { return F.IdentityAttachKLSparseReg(x, average); }
};
}  // namespace

TEST_CASE("higher order: a plan refuses the gradient of a gradient that reads what the block updates") {
  SparseActivations net;
  const auto second = [&] {
    NDArray x = nd.array({{0.2f, 0.4f}, {0.6f, 0.8f}});
    x.attach_grad();
    const NDArray average = nd.array({0.5f, 0.5f});
    return autograd::record([&] { return autograd::grad(net(x, average), x, true); });
  };
  CHECK_NOTHROW(second().wait_to_read());
  net.hybridize();
  CHECK_THROWS_WITH(second().wait_to_read(), Contains("IdentityAttachKLSparseReg reads what the block updates"));
}

}  // namespace higher_order_test

// Steady state allocates nothing: malloc itself is counted.
#include "kaon/gluon/loss.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/counted_allocations.h"

namespace allocation_test {

#ifdef KAON_COUNTS_ALLOCATIONS

using namespace kaon;
using namespace kaon::test;

namespace {

// A recurrent layer: a foreach whose body has layers, the last state classified.
struct Recurrent : gluon::HybridBlock<Recurrent> {
  gluon::Parameter input = param("input", {8, 5}), state = param("state", {8, 8});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A first = f.zeros_like(f.dot(x[0], f(input), {.transpose_b = true}));
    auto step = [&](A row, A h) {
      h = f.tanh(f.dot(row, f(input), {.transpose_b = true}) + f.dot(h, f(state), {.transpose_b = true}));
      return std::pair(f.relu(h), h);
    };
    const auto [rows, last] = contrib::foreach (step, x, first);
    return out(last + f.sum(rows, {.axis = 0}));
  }
};

// As many steps as the values say.
struct Settling : gluon::HybridBlock<Settling> {
  gluon::Parameter state = param("state", {6, 6});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A steps = f.zeros({1});
    auto condition = [&](const std::vector<A>& now) { return now[0] < 3.0f; };
    auto step = [&](const std::vector<A>& now) {
      const A h = f.tanh(f.dot(now[1], f(state)));
      return std::pair(h, std::vector<A>{now[0] + 1, h});
    };
    const auto [rows, last] = contrib::while_loop(condition, step, std::vector<A>{steps, x}, 5);
    return out(last[1] + f.sum(rows, {.axis = 0}));
  }
};

// Draws numbers in one of its branches when it is trained.
struct Branching : gluon::HybridBlock<Branching> {
  gluon::Parameter a = param("a", {6, 6}), b = param("b", {6, 6});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A h = contrib::cond(
        f.mean(x) > 0.0f, [&] { return f.relu(f.dot(x, f(a))); },
        [&] { return f.Dropout(f.tanh(f.dot(x, f(b))), {.p = 0.25}); });
    return out(h);
  }
};

// A call each time; the engine is idle at the end.
template <class Call>
void check_steady(Engine& engine, Call&& call) {
  constexpr int calls = 10;
  auto round = [&] {
    for (int i = 0; i < calls; ++i) {
      const NDArray y = call();
      if (i % 3) y.wait_to_read();
    }
    nd.waitall();
  };
  REQUIRE(allocations::ignore_libraries({"libdnnl"}));
  for (int i = 0; i < 2; ++i) round();
  REQUIRE(allocations::is_working());
  // Once more operations are pending at a time than ever before, the pools grow by a page: that is not steady yet.
  int steady = 0;  // rounds without an allocation, one after the other
  for (int i = 0; i < 30 && steady < 3; ++i) {
    const uint64_t before = engine.stats().ops;
    allocations::counting = true;
    round();
    allocations::counting = false;
    steady = allocations::count.exchange(0) == 0 ? steady + 1 : 0;
    CHECK(engine.stats().ops - before == calls);
  }
  CHECK(steady == 3);
}

// Forward and training step of a net on this batch, hybridized.
template <class Net>
void check_net(Net (*make)(), const Shape& data, bool autotune = false) {
  for (int threads : {0, 1, 2}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Net net = make();
    const NDArray x = numbers(data), label = nd.arange(double(data[0]));
    net(x).wait_to_read();
    const HybridizeOptions options{.static_alloc = true, .static_shape = true, .autotune = autotune};
    net.hybridize(options);
    check_steady(engine, [&] { return net(x); });
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
    gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, options);
    check_steady(engine, [&] { return step(x, label); });
  }
}

}  // namespace

TEST_CASE("hybrid: forwards and training steps of an MLP allocate nothing, one operation each", "[gluon]") {
  check_net(
      +[] {
        return ready(nn::HybridSequential(nn::Dense(64, {.activation = "relu"}), nn::Dense(32, {.activation = "relu"}),
                                          nn::Dense(10)));
      },
      {1, 20});
}

TEST_CASE("hybrid: forwards and training steps of LeNet allocate nothing, one operation each", "[gluon]") {
  const auto lenet = +[] {
    return ready(nn::HybridSequential(
        nn::Conv2D(6, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
        nn::Conv2D(16, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
        nn::Dense(120, {.activation = "relu"}), nn::Dense(84, {.activation = "relu"}), nn::Dense(10)));
  };
  for (bool autotune : {false, true}) check_net(lenet, {4, 1, 28, 28}, autotune);
}

TEST_CASE("hybrid: forwards and training steps of ResNet-18 allocate nothing, one operation each", "[gluon]") {
  check_net(+[] { return ready(gluon::model_zoo::vision::ResNetV1(18, {.classes = 10, .thumbnail = true})); },
            {2, 3, 16, 16});
}

TEST_CASE("hybrid: forwards and training steps of loops and branches allocate nothing, one operation each", "[gluon]") {
  check_net(+[] { return ready(Recurrent()); }, {3, 3, 5});
  check_net(+[] { return ready(Settling()); }, {4, 6});
  check_net(+[] { return ready(Branching()); }, {4, 6});
}

#endif

}  // namespace allocation_test

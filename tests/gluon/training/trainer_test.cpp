#include "kaon/gluon/trainer.h"

#include <filesystem>
#include <latch>
#include <limits>
#include <thread>

#include "kaon/engine/storage.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace trainer_test {

using namespace kaon;
using namespace kaon::test;
using gluon::Parameter;
using gluon::Trainer;
namespace nn = kaon::gluon::nn;

namespace {

gluon::ParameterDict dict(std::initializer_list<Parameter> parameters) {
  gluon::ParameterDict d;
  for (const Parameter& p : parameters) d.add(p);
  return d;
}

Parameter make(const char* name, const gluon::ParameterOptions& options = {}) {
  Parameter p(name, {10}, options);
  p.initialize(init::Zero());
  return p;
}

void backward_ones(Parameter& p) {
  autograd::record([&] { return p.data() + 1; }).backward();
}
void require_all(const Parameter& p, double expected) { require_close(p.data(), std::vector<double>(10, expected)); }

// A gradient that fails when it is computed: a negative scale is an error of the running operator.
void backward_failing(Parameter& p) {
  NDArray factor = nd.random_normal({10}, {.scale = -1});
  autograd::record([&] { return p.data() * factor; }).backward();
}

}  // namespace

TEST_CASE("trainer: momentum, multipliers and saved states", "[gluon]") {
  Parameter x = make("x");
  Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 1, .momentum = 0.5}));
  backward_ones(x);
  trainer.step(1);
  require_all(x, -1);
  x.set_lr_mult(0.5);
  backward_ones(x);
  trainer.step(1);
  require_all(x, -2);  // momentum -1, half of it, and half a step
  CHECK(trainer.steps() == 2);

  const ScratchFolder folder;
  const auto file = folder / "trainer.states", bad = folder / "bad.states";
  trainer.save_states(file);
  auto before = values(x.data());
  Trainer other(dict({x}), optimizer::SGD({.learning_rate = 7, .momentum = 0.5}));
  other.load_states(file);
  CHECK(other.steps() == 2);
  CHECK(other.learning_rate() == 1);
  backward_ones(x);
  other.step(1);
  require_all(x, -3);
  x.set_data(nd.array(before, {10}));
  backward_ones(x);
  trainer.step(1);
  require_all(x, -3);

  nd_file::save(bad, {{"steps", nd.ones({3})}});
  CHECK_THROWS_WITH(other.load_states(bad), Catch::Contains("'steps' in") && Catch::Contains("(3,)"));
  CHECK(other.steps() == 3);  // as it was
  Parameter y = make("y");
  CHECK_THROWS_AS(Trainer(dict({y}), optimizer::SGD({.momentum = 0.5})).load_states(file), ValueError);
  CHECK_THROWS_AS(Trainer(dict({x}), optimizer::Adam()).load_states(file), ValueError);
  Parameter again = make("x");
  again.cast(DType::float64);
  CHECK_THROWS_AS(Trainer(dict({again}), optimizer::SGD({.momentum = 0.5})).load_states(file), TypeError);
}

TEST_CASE("trainer: a file's counts and learning rate are checked", "[gluon]") {
  Parameter x = make("x");
  Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 0.25}));
  const ScratchFolder folder;
  const auto bad = folder / "bad.states";
  auto file_with = [&](double steps, double updates, double rate) {
    const ArrayOptions number{.dtype = DType::float64};
    nd_file::save(bad, {{"steps", nd.full({1}, steps, number)},
                        {"learning_rate", nd.full({1}, rate, number)},
                        {"updates:x", nd.full({1}, updates, number)}});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double wrong : {nan, inf, -inf, 1e300, -1.0, 0.5, 9.3e18}) {
    INFO(wrong);
    file_with(wrong, 0, 0.1);
    CHECK_THROWS_WITH(trainer.load_states(bad), Catch::Contains("'steps' in") && Catch::Contains("bad.states"));
    file_with(1, wrong, 0.1);
    CHECK_THROWS_WITH(trainer.load_states(bad), Catch::Contains("'updates:x' in") && Catch::Contains("bad.states"));
  }
  for (const double wrong : {nan, inf, -0.1}) {
    file_with(1, 0, wrong);
    CHECK_THROWS_WITH(trainer.load_states(bad), Catch::Contains("'learning_rate' in") && Catch::Contains("bad.states"));
  }
  CHECK(trainer.steps() == 0);  // as it was
  CHECK(trainer.learning_rate() == 0.25);
  file_with(7, 0, 0.5);
  trainer.load_states(bad);
  CHECK(trainer.steps() == 7);
  CHECK(trainer.learning_rate() == 0.5);
}

TEST_CASE("trainer: parameters of two nets with the same names are trained, their states not saved", "[gluon]") {
  Parameter x = make("x"), other = make("x");
  Trainer trainer(dict({x, other}), optimizer::SGD({.learning_rate = 1, .momentum = 0.5}));
  backward_ones(x);
  backward_ones(other);
  trainer.step(1);
  require_all(x, -1);
  require_all(other, -1);
  const ScratchFolder folder;
  const auto file = folder / "trainer.states";
  CHECK_THROWS_WITH(trainer.save_states(file), Catch::Contains("two parameters are named 'x'"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("trainer: multipliers set after loading count", "[gluon]") {
  Parameter x = make("x");
  Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 0.1}));
  backward_ones(x);
  trainer.step(1);
  const ScratchFolder folder;
  const auto file = folder / "trainer.states";
  trainer.save_states(file);
  trainer.load_states(file);
  x.set_lr_mult(2);
  backward_ones(x);
  trainer.step(1);
  require_all(x, -0.3);
}

TEST_CASE("trainer: Adam goes on from saved states as if it had not stopped", "[gluon]") {
  const ScratchFolder folder;
  const auto file = folder / "trainer.states";
  std::vector<double> expected;
  for (bool interrupted : {false, true}) {
    Parameter x = make("x");
    Trainer trainer(dict({x}), optimizer::Adam({.learning_rate = 0.1}));
    for (int i = 0; i < 4; ++i) {
      if (interrupted && i == 2) {
        trainer.save_states(file);
        trainer = Trainer(dict({x}), optimizer::Adam());
        trainer.load_states(file);
      }
      autograd::record([&] { return nd.square(x.data() - double(i + 1)); }).backward();
      trainer.step(1);
    }
    if (interrupted) {
      CHECK(values(x.data()) == expected);
    } else {
      expected = values(x.data());
    }
  }
}

TEST_CASE("trainer: batch size, schedulers, rates", "[gluon]") {
  Parameter x = make("x");
  Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 1}));
  backward_ones(x);
  trainer.step(4);
  require_all(x, -0.25);
  trainer.set_learning_rate(0.5);
  backward_ones(x);
  trainer.step(1);
  require_all(x, -0.75);
  CHECK_THROWS_AS(trainer.step(0), ValueError);

  auto schedule = lr_scheduler::FactorScheduler({.step = 2, .factor = 0.1, .base_lr = 1});
  Trainer scheduled(dict({x}), optimizer::SGD({.lr_scheduler = schedule}));
  double rate = 1;
  for (int i = 0; i < 10; ++i) {
    backward_ones(x);
    scheduled.step(1);
    if (i % 2 == 0) {
      CHECK(scheduled.learning_rate() == Approx(rate));
      rate *= 0.1;
    }
  }
  CHECK_THROWS_AS(scheduled.set_learning_rate(1), StateError);
}

TEST_CASE("trainer: stale gradients", "[gluon]") {
  Parameter x = make("x"), y = make("y");
  Trainer trainer(dict({x, y}), optimizer::SGD({.learning_rate = 1}));
  CHECK_THROWS_WITH(trainer.step(1), Catch::Contains("x"));
  backward_ones(x);
  CHECK_THROWS_WITH(trainer.step(1), Catch::Contains("y"));
  require_all(x, 0);
  trainer.step(1, true);
  require_all(x, -1);
  require_all(y, 0);
  backward_ones(y);
  CHECK_THROWS_AS(trainer.step(1), StateError);
  backward_ones(x);
  trainer.step(1);
  require_all(x, -2);
  require_all(y, -1);
  y.set_grad_req(GradReq::null);
  backward_ones(x);
  trainer.step(1);
  require_all(y, -1);
}

TEST_CASE("trainer: several backwards before one step", "[gluon]") {
  Parameter x = make("x", {.grad_req = GradReq::add});
  Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 1}));
  backward_ones(x);
  backward_ones(x);
  trainer.step(1);
  require_all(x, -2);
}

TEST_CASE("trainer: deferred parameters are named", "[gluon]") {
  nn::Dense dense(2);
  dense.initialize();
  Trainer trainer(dense.collect_params(), optimizer::SGD());
  CHECK_THROWS_WITH(trainer.step(1), Catch::Contains("weight"));
}

TEST_CASE("trainer: a step is one operation and does not wait", "[gluon]") {
  Engine engine;
  EngineScope scope(engine);
  Parameter x = make("x"), y = make("y");
  Trainer trainer(dict({x, y}), optimizer::SGD({.learning_rate = 1, .momentum = 0.9}));
  auto backward = [&] { autograd::record([&] { return x.data() + y.data(); }).backward(); };
  backward();
  trainer.step(1);  // makes the states
  engine.wait_all();
  std::latch gate(1);
  NDArray held = x.data();
  engine.push({update(held.var())}, [&](RunContext&) { gate.wait(); });
  backward();
  uint64_t before = engine.stats().ops;
  trainer.step(1);
  CHECK(engine.stats().ops == before + 1);
  gate.count_down();
  require_all(x, -1 - 1.9);
}

TEST_CASE("users row 2: a failed gradient changes no parameter and is thrown by a later step", "[gluon]") {
  for (int threads : {0, 1, 2, 4}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Parameter x = make("x"), y = make("y");
    Trainer trainer(dict({x, y}), optimizer::SGD({.learning_rate = 1, .momentum = 0.9}));
    backward_ones(x);
    backward_failing(y);
    trainer.step(1);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    require_all(x, 0);
    require_all(y, 0);
    backward_ones(x);
    backward_ones(y);
    CHECK_THROWS_AS(trainer.step(1), ValueError);
    trainer.step(1);
    require_all(x, -1);
    require_all(y, -1);
    engine.wait_all();
  }
}

TEST_CASE("users row 2: a step that fails itself changes no parameter and is thrown by a later step", "[gluon]") {
  for (int threads : {0, 1, 2, 4}) {
    for (bool momentum : {false, true}) {
      INFO(threads << " threads, momentum " << momentum);
      Engine engine({.threads = threads});
      EngineScope scope(engine);
      Parameter x = make("x"), y = make("y");
      Trainer trainer(dict({x, y}), optimizer::SGD({.learning_rate = 1, .momentum = momentum ? 0.9 : 0}));
      backward_ones(x);
      backward_ones(y);
      trainer.step(1);
      backward_ones(x);
      backward_ones(y);
      engine.wait_all();
      Storage::cpu().set_limit(1);  // no scratch memory
      const int line = __LINE__ + 1;
      trainer.step(1);
      require_all(x, -1);  // waits
      require_all(y, -1);
      Storage::cpu().set_limit(0);
      backward_ones(x);
      backward_ones(y);
      while (engine.stats().completed < engine.stats().ops) std::this_thread::yield();
      try {
        trainer.step(1);
        FAIL("the failure is lost");
      } catch (const MemoryError& e) {
        CHECK_THAT(e.what(),
                   Catch::Contains("out of memory") && Catch::Contains("trainer_test.cpp:" + std::to_string(line)));
      }
      CHECK_NOTHROW(engine.wait_all());  // it has been thrown
      trainer.step(1);
      require_all(x, momentum ? -2.9 : -2);
      require_all(y, momentum ? -2.9 : -2);
    }
  }
}

TEST_CASE("trainer: it may go while a step is still waiting", "[gluon]") {
  Engine engine;
  EngineScope scope(engine);
  std::latch gate(1);
  Parameter x = make("x");
  engine.wait_all();
  {
    Trainer trainer(dict({x}), optimizer::SGD({.learning_rate = 1}));
    NDArray held = x.data();
    engine.push({update(held.var())}, [&](RunContext&) { gate.wait(); });
    backward_ones(x);
    trainer.step(1);
  }
  gate.count_down();
  require_all(x, -1);
}

TEST_CASE("trainer: a small net learns, hybridized as well", "[gluon]") {
  for (bool hybrid : {false, true}) {
    kaon::random::seed(3);
    nn::HybridSequential net(nn::Dense(16, {.activation = "tanh"}), nn::Dense(2));
    net.initialize(init::Xavier());
    net.hybridize(hybrid);
    gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
    Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.05}));
    double last = 0;
    for (int i = 0; i < 150; ++i) {
      NDArray x = nd.random_uniform({32, 2}, {.low = -1, .high = 1});
      NDArray label = nd.prod(x, {.axis = {1}}) > 0;  // exclusive or
      NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
      loss.backward();
      trainer.step(32);
      if (i == 149) last = loss.mean().asscalar<double>();
    }
    CHECK(last < 0.2);
  }
}

}  // namespace trainer_test

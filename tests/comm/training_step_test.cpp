// TrainingStep over ranks: buckets of gradients that leave while the plan runs.
#include "checks.h"
#include "kaon/engine/profiler.h"
#include "kaon/gluon/util/amp.h"

namespace training_step_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

TEST_CASE("comm training step: several buckets, as Trainer::step has them, and their sums in the attached gradients") {
  // two buckets at least: 4 MB of weights
  const auto make = [] {
    nn::HybridSequential net;
    net.add(nn::Dense(1000, {.in_units = 1000}), nn::Dense(200, {.in_units = 1000}));
    net.initialize(init::Normal(0.01));
    return net;
  };
  random::seed(5);
  const nn::HybridSequential net = make(), other = make();
  copy_parameters(net, other);
  const auto half_square = [](auto y) { return (y * y).sum() * 0.5; };
  Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}), {.kvstore = "dist_sync"});
  Trainer reference(other.collect_params(), optimizer::SGD({.learning_rate = 0.01}), {.kvstore = "dist_sync"});
  TrainingStep step([&](auto x) { return half_square(net(x)); }, trainer, {.static_alloc = true, .exact = true});
  for (int i = 0; i < 4; ++i) {
    const NDArray x = numbers({2, 1000}, 3 * rank() + i + 1);
    step(x);
    autograd::record([&] { return half_square(other(x)); }).backward();
    reference.step(2 * ranks());
    const auto p = net.collect_params(), q = other.collect_params();
    for (size_t k = 0; k < p.size(); ++k) {
      CAPTURE(i, p[k].name());
      CHECK(nd.array_equal(p[k].data(), q[k].data()).asscalar<bool>());
      // one rank leaves them alone
      if (ranks() > 1) CHECK(nd.array_equal(p[k].grad(), q[k].grad()).asscalar<bool>());
    }
  }
  check_same_on_ranks(net.collect_params());
}

namespace {
// All three modes, each with an optimizer that has states.
void check_on(const EngineOptions& options) {
  Engine engine(options);
  EngineScope scope(engine);
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_training(optimizer::Adam({.learning_rate = 0.01}), mode);
    check_training(optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}), mode, {.shard_states = true});
  }
}
void check_schedules(uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; ++seed) {
    CAPTURE(seed);
    check_on({.schedule = Schedule::random(seed)});
  }
}
}  // namespace

TEST_CASE("comm training step: on an engine without workers, and under two random schedules") {
  check_on({.threads = 0});
  check_schedules(1, 2);
}

TEST_CASE("comm training step: under 20 random schedules", "[slow]") { check_schedules(1, 20); }

TEST_CASE("comm training step: accumulated gradients, with grad_req add") {
  const int64_t each = 4;
  nn::HybridSequential net = mlp(), alone = mlp();
  net.initialize();
  alone.initialize();
  Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}), {.kvstore = "dist_sync"}),
      reference(alone.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  copy_parameters(net, alone);
  net.collect_params().set_grad_req(GradReq::add);
  const loss::SoftmaxCrossEntropyLoss loss;
  TrainingStep step(net, loss, trainer);
  const int64_t all = 2 * each * ranks();
  step.set_batch_size(all);
  for (int i = 0; i < 3; ++i) {
    const NDArray x = part(numbers({all, 10}, i + 1)), y = part(labels(all, i));
    net.collect_params().zero_grad();
    step.accumulate(x.slice(0, each), y.slice(0, each));
    step(x.slice(each, 2 * each), y.slice(each, 2 * each));
    autograd::record([&] { return loss(alone(numbers({all, 10}, i + 1)), labels(all, i)); }).backward();
    reference.step(all);
  }
  check_same(net, alone, 2e-4);
}

TEST_CASE("comm training step: scaled losses, and an overflow on one rank leaves all weights alone") {
  nn::HybridSequential net = mlp();
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}), {.kvstore = "dist_sync"});
  amp::init_trainer(trainer, {.init_scale = 8});
  const loss::SoftmaxCrossEntropyLoss loss;
  TrainingStep step(net, loss, trainer);
  const auto weights = [&] { return net.collect_params()[0].data().asvector<float>(); };
  std::vector<float> before = weights();
  const NDArray x = part(numbers({8 * ranks(), 10}, 1)), y = part(labels(8 * ranks(), 0));
  step(x, y);
  CHECK(weights() != before);
  CHECK(trainer.loss_scale().asscalar<float>() == 8);
  before = weights();
  step(rank() == ranks() - 1 ? x * INFINITY : x, y);
  CHECK(weights() == before);
  CHECK(trainer.loss_scale().asscalar<float>() == 4);
  check_same_on_ranks(net.collect_params());
}

TEST_CASE("comm training step: further outputs, shapes from the first batch, and other shapes later") {
  nn::HybridSequential net;
  net.add(nn::Dense(8, {.activation = "tanh"}), nn::Dense(4));
  random::seed(uint64_t(rank()));
  net.initialize(init::Normal(0.5));
  Trainer trainer(net.collect_params(), optimizer::Adam(), {.kvstore = "dist_sync"});
  const loss::SoftmaxCrossEntropyLoss loss;
  TrainingStep step(
      [&](auto x, auto y) {
        const auto out = net(x);
        return std::pair(loss(out, y), out);
      },
      trainer);
  for (const int64_t n : {4, 6, 4}) {
    const NDArray l = step(part(numbers({n * ranks(), 10}, 3)), part(labels(n * ranks(), 1)));
    CHECK(l.shape() == Shape(n));
    REQUIRE(step.outputs().size() == 1);
    CHECK(step.outputs()[0].shape() == Shape(n, 4));
  }
  check_same_on_ranks(net.collect_params());
}

TEST_CASE("comm training step: buckets leave as operations of their own") {
  if (ranks() == 1) return;
  nn::HybridSequential net;
  for (int i = 0; i < 4; ++i) net.add(nn::Dense(500, {.in_units = 500}));
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::SGD(), {.kvstore = "dist_sync"});
  TrainingStep step([&](auto x) { return net(x).sum(); }, trainer);
  const NDArray x = part(numbers({2 * ranks(), 500}, 1));
  step(x);
  nd.waitall();  // the loss is there before the last piece of the plan has run
  Profiler& profiler = Engine::current().profiler();
  profiler.start();
  step(x);
  nd.waitall();
  profiler.stop();
  // 4 MB of weights: a bucket for each layer. The plan is cut where one is complete.
  int runs = 0, sums = 0;
  for (const auto& e : profiler.events()) {
    runs += e.name == std::string_view("training step") && e.category == std::string_view("operator");
    sums += e.name == std::string_view("all_reduce") && e.category == std::string_view("push");
  }
  CHECK(runs == 4);
  CHECK(sums == 4);
}

}  // namespace training_step_test

// TrainingStep: record(), backward() and Trainer::step() as one submission.
#include "kaon/gluon/training_step.h"

#include "kaon/gluon/loss.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/graph/plan_report.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace training_step_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

using gluon::loss::SoftmaxCrossEntropyLoss;

// Convolution, running statistics, dropout, a shared activation: what a step has to keep apart.
struct Net : gluon::HybridBlock<Net> {
  nn::Conv2D conv = child("conv", nn::Conv2D(6, {.kernel_size = 3, .padding = 1}));
  nn::BatchNorm norm = child("norm", nn::BatchNorm());
  nn::MaxPool2D pool = child("pool", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(20, {.activation = "tanh"}));
  nn::Dropout drop = child("drop", nn::Dropout(0.3));
  nn::Dense fc2 = child("fc2", nn::Dense(10));
  Net() : HybridBlock("net") {}
  auto hybrid_forward(auto F, auto x) {
    x = pool(F.relu(norm(conv(x))));
    return fc2(drop(fc1(x)));
  }
};

enum class Way { plain, step, mixed };

struct Batch {
  NDArray data, label;
};
Batch batch_of(int64_t size, uint32_t i) {
  return {numbers({size, 2, 8, 8}, i + 1), nd.floor((numbers({size}, 100 + i) + 1) * 5)};
}

gluon::ParameterDict all(const Net& net) { return net.collect_params(); }

struct Result {
  std::vector<std::vector<double>> losses, parameters;
  int64_t steps = 0;
  bool operator==(const Result&) const = default;
};

// `rounds` steps, the last batch of every four a short one; the second layer is frozen for some of them.
Result train(const optimizer::Optimizer& optimizer, Way way, bool exact, int threads, int rounds = 12,
             bool autotune = false) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  Net net = ready(Net(), 7);
  SoftmaxCrossEntropyLoss loss_fn;
  gluon::Parameter weight = net.fc1.collect_params()[0];
  weight.set_lr_mult(0.5);
  gluon::Trainer trainer(all(net), optimizer);
  if (way != Way::step) net.hybridize({.static_alloc = true, .static_shape = true, .exact = exact});
  if (way != Way::step) loss_fn.hybridize({.static_alloc = true, .static_shape = true, .exact = exact});
  gluon::TrainingStep step(net, loss_fn, trainer,
                           {.static_alloc = true, .static_shape = true, .exact = exact, .autotune = autotune});
  Result r;
  std::vector<NDArray> losses;
  for (int i = 0; i < rounds; ++i) {
    Batch batch = batch_of(i % 4 == 3 ? 5 : 8, uint32_t(i));
    for (gluon::Parameter p : net.conv.collect_params()) {
      p.set_grad_req(i == 6 || i == 7 ? GradReq::null : GradReq::write);
    }
    if (way == Way::step || (way == Way::mixed && i % 3 == 1)) {
      losses.push_back(step(batch.data, batch.label));
    } else {
      NDArray loss = autograd::record([&] { return loss_fn(net(batch.data), batch.label); });
      loss.backward();
      trainer.step(batch.data.shape()[0]);
      losses.push_back(loss);
    }
  }
  for (const NDArray& loss : losses) r.losses.push_back(values(loss));
  for (const gluon::Parameter& p : all(net)) r.parameters.push_back(values(p.data()));
  r.steps = trainer.steps();
  engine.wait_all();
  return r;
}

void check(const optimizer::Optimizer& optimizer) {
  const Result expected = train(optimizer, Way::plain, true, 0);
  CHECK(expected.steps == 12);
  for (Way way : {Way::step, Way::mixed}) {
    for (int threads : {0, 1, 2}) {
      INFO((way == Way::step ? "steps" : "mixed") << ", " << threads << " threads");
      REQUIRE(train(optimizer, way, true, threads) == expected);  // every bit
    }
  }
  const Result fast = train(optimizer, Way::step, false, 2);
  REQUIRE(fast == train(optimizer, Way::step, false, 0));
  for (size_t i = 0; i < expected.losses.size(); ++i) require_close(fast.losses[i], expected.losses[i], 2e-3, 1e-4);
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    require_close(fast.parameters[i], expected.parameters[i], 5e-3, 1e-4);
  }
}

nn::HybridSequential mlp() { return ready(nn::HybridSequential(nn::Dense(16, {.activation = "relu"}), nn::Dense(10))); }

std::vector<std::vector<double>> parameters_of(const gluon::Block& net) {
  std::vector<std::vector<double>> all;
  for (const gluon::Parameter& p : net.collect_params()) all.push_back(values(p.data()));
  return all;
}

}  // namespace

TEST_CASE("training step: bit-equal to record, backward and step, whichever way steps are taken", "[gluon]") {
  SECTION("SGD") { check(optimizer::SGD({.learning_rate = 0.1})); }
  SECTION("SGD with momentum, decay and clipping") {
    check(optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9, .wd = 0.01, .clip_gradient = 0.02}));
  }
}

TEST_CASE("training step: with a rate that changes in each step", "[gluon]") {
  // Adam divides by the root of small numbers: only the exact kernels can be compared
  const optimizer::Adam adam({.learning_rate = 0.01, .lr_scheduler = lr_scheduler::FactorScheduler({.step = 2})});
  const Result expected = train(adam, Way::plain, true, 0);
  for (int threads : {0, 2}) REQUIRE(train(adam, Way::step, true, threads) == expected);
}

// Updates by the sums of two to four batches; fc2 has grad_req write, where the last batch alone counts.
Result train_sums(Way way, DType dtype, bool writes, int threads) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  Net net = ready(Net(), 7);
  net.cast(dtype);
  SoftmaxCrossEntropyLoss loss_fn;
  for (gluon::Parameter p : all(net)) p.set_grad_req(GradReq::add);
  if (writes) {
    for (gluon::Parameter p : net.fc2.collect_params()) p.set_grad_req(GradReq::write);
  }
  const HybridizeOptions options{.static_alloc = true, .static_shape = true, .exact = true};
  net.hybridize(options), loss_fn.hybridize(options);
  gluon::Trainer trainer(all(net), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9, .multi_precision = true}),
                         {.clip_global_norm = 0.5});
  gluon::TrainingStep step(net, loss_fn, trainer, options);
  Result r;
  uint32_t number = 0;
  for (int i = 0; i < 6; ++i) {
    const int batches = 2 + i % 3;
    step.set_batch_size(8 * batches);
    for (int k = 0; k < batches; ++k, ++number) {
      const Batch batch = batch_of(k == 1 ? 5 : 8, number);
      const NDArray x = batch.data.astype(dtype);
      const bool is_last = k + 1 == batches;
      NDArray loss;
      if (way == Way::step || (way == Way::mixed && number % 2 == 0)) {
        loss = is_last ? step(x, batch.label) : writes ? NDArray() : step.accumulate(x, batch.label);
      }
      if (!loss.defined()) {
        loss = autograd::record([&] { return loss_fn(net(x), batch.label); });
        loss.backward();
        if (is_last) trainer.step(8 * batches);
      }
      r.losses.push_back(values(loss));
    }
    for (const gluon::Parameter& p : all(net)) {
      if (p.grad_req() == GradReq::add) r.parameters.push_back(values(p.grad()));
    }
    all(net).zero_grad();
  }
  for (const gluon::Parameter& p : all(net)) r.parameters.push_back(values(p.data()));
  r.steps = trainer.steps();
  engine.wait_all();
  return r;
}

TEST_CASE("training step: sums of several batches' gradients are those of backward()", "[gluon]") {
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    for (bool writes : {false, true}) {
      INFO(name_of(dtype) << (writes ? ", one layer with grad_req write" : ""));
      const Result expected = train_sums(Way::plain, dtype, writes, 0);
      CHECK(expected.steps == 6);
      for (Way way : {Way::step, Way::mixed}) {
        for (int threads : {0, 1, 2}) {
          INFO((way == Way::step ? "steps" : "mixed") << ", " << threads << " threads");
          REQUIRE(train_sums(way, dtype, writes, threads) == expected);  // every bit
        }
      }
    }
  }
}

TEST_CASE("training step: an unscaled or used sum is not used again", "[gluon]") {
  auto net = mlp();
  SoftmaxCrossEntropyLoss loss_fn;
  net.collect_params().set_grad_req(GradReq::add);
  const NDArray x = numbers({8, 12}), label = nd.arange(8);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  gluon::TrainingStep step(net, loss_fn, trainer);
  step.accumulate(x, label);
  CHECK(trainer.steps() == 0);
  trainer.step(8);  // takes the sum as well
  CHECK_THROWS_WITH(trainer.step(8), Contains("has not been written by backward() since the last step"));
  step(x, label);
  CHECK_THROWS_WITH(trainer.step(8), Contains("has not been written by backward() since the last step"));
  amp::init_trainer(trainer);
  step.accumulate(x, label);
  amp::unscale(trainer);
  CHECK_THROWS_WITH(step(x, label), Contains("have been divided by amp::unscale()"));
  trainer.step(8);
  net.collect_params().zero_grad();
  CHECK_NOTHROW(step(x, label).wait_to_read());
  CHECK(trainer.steps() == 4);
}

TEST_CASE("training step: sums are one submission, and a failed batch is told", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    auto net = mlp();
    SoftmaxCrossEntropyLoss loss_fn;
    net.collect_params().set_grad_req(GradReq::add);
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
    gluon::TrainingStep step(net, loss_fn, trainer);
    const NDArray x = numbers({8, 12}), label = nd.arange(8);
    step.accumulate(x, label), step(x, label);
    nd.waitall();
    const uint64_t before = engine.stats().ops;
    for (int i = 0; i < 5; ++i) step.accumulate(x, label), step(x, label);
    CHECK(engine.stats().ops - before == 10);
    const auto parameters = parameters_of(net);
    NDArray bad = nd.zeros({8, 12});
    engine.push({write(bad.var())}, [](RunContext&) { throw ValueError("no such file"); });
    const NDArray loss = step.accumulate(bad, label);
    CHECK_THROWS_WITH(loss.wait_to_read(), Contains("no such file"));
    CHECK_NOTHROW(engine.wait_all());
    CHECK(parameters_of(net) == parameters);
    CHECK_THROWS_WITH(step(x, label), Contains("no such file"));
    net.collect_params().zero_grad();  // the sums have failed with the batch
    CHECK_NOTHROW(step(x, label).wait_to_read());
    CHECK(parameters_of(net) != parameters);
  }
}

TEST_CASE("training step: an error of the trace says where the step was called", "[gluon]") {
  nn::Dense net = ready(nn::Dense(3, {.in_units = 4}));
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD());
  gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
  const std::string here = fmt::format("training_step_test.cpp:{}", __LINE__ + 1);
  CHECK_THROWS_WITH(step(numbers({2, 5}), numbers({2, 3})), Contains(here) && !Contains("training_step.h"));
}

TEST_CASE("training step: with layouts and kernels chosen by time", "[gluon]") {
  const optimizer::SGD sgd({.learning_rate = 0.1, .momentum = 0.9});
  const Result expected = train(sgd, Way::plain, true, 0);
  for (int threads : {0, 1, 2}) {
    INFO(threads << " threads");
    const Result tuned = train(sgd, Way::step, false, threads, 12, true);
    for (size_t i = 0; i < expected.losses.size(); ++i) require_close(tuned.losses[i], expected.losses[i], 2e-3, 1e-4);
    for (size_t i = 0; i < expected.parameters.size(); ++i) {
      require_close(tuned.parameters[i], expected.parameters[i], 5e-3, 1e-4);
    }
  }
}

TEST_CASE("training step: one submission, and gradients have no arrays", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    auto net = mlp();
    SoftmaxCrossEntropyLoss loss_fn;
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    gluon::TrainingStep step(net, loss_fn, trainer);
    NDArray x = numbers({8, 12}), label = nd.arange(8);
    CHECK_THROWS_WITH(step.plan(), Contains("no step"));
    double first = step(x, label).mean().asscalar<float>(), last = first;
    nd.waitall();
    const uint64_t before = engine.stats().ops;
    for (int i = 0; i < 30; ++i) step(x, label);
    CHECK(engine.stats().ops - before == 30);
    last = step(x, label).mean().asscalar<float>();
    CHECK(last < 0.8 * first);
    // what a gradient held before is still there
    CHECK(values(net.collect_params()[0].grad()) == std::vector<double>(size_t(16 * 12)));
    CHECK_THAT(step.plan()->dump(), Contains("_kaon_multi_update3"));
  }
}

TEST_CASE("training step: a failure changes nothing and a later step tells", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    auto net = mlp();
    SoftmaxCrossEntropyLoss loss_fn;
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    gluon::TrainingStep step(net, loss_fn, trainer);
    NDArray x = numbers({8, 12}), label = nd.arange(8);
    step(x, label);
    const auto before = parameters_of(net);
    NDArray bad = nd.zeros({8, 12});
    engine.push({write(bad.var())}, [](RunContext&) { throw ValueError("no such file"); });
    NDArray loss = step(bad, label);
    CHECK_THROWS_WITH(loss.wait_to_read(), Contains("no such file"));
    CHECK_NOTHROW(engine.wait_all());  // it has been thrown
    CHECK(parameters_of(net) == before);
    const int64_t steps = trainer.steps();
    CHECK_THROWS_WITH(step(x, label), Contains("no such file"));
    CHECK(trainer.steps() == steps);
    CHECK_NOTHROW(step(x, label).wait_to_read());
    CHECK(parameters_of(net) != before);
  }
}

TEST_CASE("training step: what it cannot do is said", "[gluon]") {
  auto net = mlp();
  SoftmaxCrossEntropyLoss loss_fn;
  NDArray x = numbers({8, 12}), label = nd.arange(8);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD());
  gluon::TrainingStep step(net, loss_fn, trainer);
  step(x, label);
  CHECK_THROWS_WITH(autograd::record([&] { return step(x, label); }), Contains("outside of record()"));
  CHECK_THROWS_WITH(step(nd.zeros({0, 12}), nd.zeros({0})), Contains("no samples"));
  CHECK_THROWS_AS(step(numbers({8, 11}), label), ShapeError);
  gluon::Parameter weight = net.collect_params()[0];
  CHECK_THROWS_WITH(step.accumulate(x, label), Contains("must be add, got write") && Contains(weight.name()));
  CHECK_THROWS_WITH(step.accumulate(std::vector<NDArray>{}), Contains("no inputs"));
  CHECK_THROWS_WITH(step.set_batch_size(-1), Contains("expected a number of samples, got -1"));
  CHECK_NOTHROW(step(x, label).wait_to_read());
  for (gluon::Parameter p : net.collect_params()) p.set_grad_req(GradReq::null);
  CHECK_THROWS_WITH(step(x, label), Contains("no parameter"));
  CHECK(trainer.steps() == 2);
  auto other = mlp();
  gluon::Trainer of_both(other.collect_params(), optimizer::SGD());
  gluon::TrainingStep astray(net, loss_fn, of_both);
  CHECK_THROWS_WITH(astray(x, label), Contains("does not depend on"));
}

namespace {

// Two inputs and two results, one of them for the loss.
struct Masked : gluon::HybridBlock<Masked> {
  nn::Dense first = child("first", nn::Dense(6, {.activation = "relu"}));
  nn::Dense second = child("second", nn::Dense(3));
  auto hybrid_forward(auto F, auto x, auto mask) {
    auto hidden = first(x) * mask;
    return std::pair(second(hidden), F.sum(hidden, {.axis = {1}}));
  }
};

struct Inputs {
  NDArray x = numbers({4, 5}, 1), mask = nd.round(numbers({4, 6}, 2) * 0.5 + 0.5), y = nd.array({0, 2, 1, 1});
};

}  // namespace

TEST_CASE("training step: a loss of any inputs, and outputs beside it", "[gluon]") {
  const Inputs in;
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::vector<std::vector<double>> expected;
    for (bool as_step : {false, true}) {
      const Inputs here;
      Masked net = ready(Masked(), 3);
      net(here.x, here.mask);
      SoftmaxCrossEntropyLoss loss_fn;
      gluon::Trainer trainer(net.collect_params(), optimizer::Adam());
      const auto total = [&](auto x, auto mask, auto y) {
        auto [scores, sums] = net(x, mask);
        return std::tuple(loss_fn(scores, y) + sums * 0.01, scores, std::vector{sums});
      };
      gluon::TrainingStep step(total, trainer, {.static_alloc = true, .static_shape = true, .exact = true});
      std::vector<std::vector<double>> got;
      for (int i = 0; i < 4; ++i) {
        if (as_step) {
          got.push_back(values(step(here.x, here.mask, here.y)));
          REQUIRE(step.outputs().size() == 2);
          for (const NDArray& output : step.outputs()) got.push_back(values(output));
        } else {
          NDArray loss, scores;
          std::vector<NDArray> sums;
          autograd::record([&] { std::tie(loss, scores, sums) = total(here.x, here.mask, here.y); });
          loss.backward();
          trainer.step(4);
          for (const NDArray& a : {loss, scores, sums[0]}) got.push_back(values(a));
        }
      }
      for (const gluon::Parameter& p : net.collect_params()) got.push_back(values(p.data()));
      if (as_step) CHECK(got == expected);
      expected = got;
    }
  }
}

TEST_CASE("training step: one list of all inputs, of any length", "[gluon]") {
  nn::Dense net(2);
  net.initialize();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.0}));
  gluon::TrainingStep step(
      [net](const std::vector<Symbol>& inputs) {
        Symbol sum = net(inputs[0]);
        for (size_t i = 1; i < inputs.size(); ++i) sum = sum + net(inputs[i]);
        return sum;
      },
      trainer);
  const NDArray x = numbers({3, 4}, 1);
  const std::vector<double> once = values(net(x));
  for (int n : {1, 3, 2, 3}) {
    std::vector<double> expected = once;
    for (double& v : expected) v *= n;
    require_close(step(std::vector(size_t(n), x)), expected);
    CHECK(step.outputs().empty());
  }
  require_close(step(x), once);
  CHECK_THROWS_AS(step(std::vector<NDArray>{}), ValueError);
  gluon::TrainingStep pair(net, gluon::loss::L2Loss(), trainer);
  CHECK_THROWS_WITH(pair(x, x, x), Contains("2 inputs, got 3"));
  gluon::TrainingStep three([&](auto a, auto b, auto c) { return net(a + b * c); }, trainer);
  CHECK_THROWS_WITH(three(x, x), Contains("3 inputs, got 2"));
  require_close(three(x, nd.zeros_like(x), x), once);
}

TEST_CASE("training step: an output layer beside the loss gives no gradient", "[gluon]") {
  const NDArray x = numbers({4, 5}, 1), y = nd.array({0, 2, 1, 1});
  std::vector<std::vector<double>> expected;
  for (bool with_layer : {false, true}) {
    random::seed(3);
    nn::Dense net(3);
    net.initialize();
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
    const auto total = [&](const Symbol& x, const Symbol& y) {
      const Symbol scores = net(x);
      return std::tuple(SoftmaxCrossEntropyLoss()(scores, y), with_layer ? sym.SoftmaxOutput(scores, y) : scores);
    };
    gluon::TrainingStep step(total, trainer, {.static_alloc = true, .static_shape = true, .exact = true});
    for (int i = 0; i < 2; ++i) step(x, y);
    std::vector<std::vector<double>> got;
    for (const gluon::Parameter& p : net.collect_params()) got.push_back(values(p.data()));
    if (with_layer) CHECK(got == expected);
    expected = got;
  }
}

}  // namespace training_step_test

// SGLD and GroupAdaGrad beyond the golden trainings: noise, rows, dtypes, steps that amp leaves out, TrainingStep.
#include <numeric>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace composed_optimizers_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using gluon::Parameter;
namespace nn = kaon::gluon::nn;

namespace {

Parameter parameter(const Shape& shape, DType dtype = DType::float32) {
  Parameter p("p", shape, {.dtype = dtype});
  p.initialize(init::Uniform(1));
  return p;
}

gluon::ParameterDict dict(const Parameter& p) {
  gluon::ParameterDict all;
  all.add(p);
  return all;
}

// A step of the gradient `c`.
void step(const Parameter& p, const NDArray& c, gluon::Trainer& trainer, int64_t batch_size) {
  autograd::record([&] { return nd.sum(c * p.data()); }).backward();
  trainer.step(batch_size);
}

// Mean, variance and kurtosis.
std::array<double, 3> moments(const std::vector<double>& v) {
  const double n = double(v.size()), mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
  double square = 0, fourth = 0;
  for (double x : v) square += std::pow(x - mean, 2) / n, fourth += std::pow(x - mean, 4) / n;
  return {mean, square, fourth / (square * square)};
}

template <class F>
void check_rows(const Shape& shape, DType dtype, F f) {
  Parameter p = parameter(shape, dtype);
  gluon::Trainer trainer(dict(p), optimizer::GroupAdaGrad({.learning_rate = 0.1, .eps = 0.01, .clip_gradient = 0.5}));
  std::vector<double> w = values(p.data());
  const size_t rows = size_t(shape[0]), width = rows == 0 ? 0 : w.size() / rows;
  std::vector<double> h(rows);
  for (int t = 0; t < 5; ++t) {
    const NDArray c = nd.random_normal(shape, {.dtype = dtype});
    const std::vector<double> all = values(c);
    step(p, c, trainer, 2);
    for (size_t r = 0; r < rows; ++r) {
      std::vector<double> g;
      for (size_t i = 0; i < width; ++i) g.push_back(std::clamp(all[r * width + i] / 2, -0.5, 0.5));
      for (double x : g) h[r] += x * x / double(width);
      for (size_t i = 0; i < width; ++i) w[r * width + i] -= 0.1 * g[i] / std::sqrt(h[r] + 0.01);
    }
    f(p.data(), w);
  }
}

}  // namespace

TEST_CASE("optimizer: GroupAdaGrad has one rate for each row, whatever its axes are", "[gluon]") {
  for (DType dtype : {DType::float32, DType::float64, DType::float16}) {
    for (const Shape& shape : {Shape(5, 3), Shape(7), Shape(3, 2, 2, 2), Shape(1, 1)}) {
      INFO(name_of(dtype) << shape.str());
      const double bound = dtype == DType::float16 ? 1e-2 : 1e-5;
      check_rows(shape, dtype,
                 [&](const NDArray& got, const auto& wanted) { require_close(got, wanted, bound, bound); });
    }
  }
}

TEST_CASE("optimizer: SGLD's noise is normal, has the rate as its variance and follows the seed", "[gluon]") {
  const auto noise = [](double lr, uint64_t seed, DType dtype) {
    Parameter p("p", {200, 100}, {.dtype = dtype});
    p.initialize(init::Zero());
    gluon::Trainer trainer(dict(p), optimizer::SGLD({.learning_rate = lr}));
    random::seed(seed);
    step(p, nd.zeros({200, 100}, {.dtype = dtype}), trainer, 1);
    return values(p.data());
  };
  for (DType dtype : {DType::float32, DType::float64, DType::float16}) {
    INFO(name_of(dtype));
    const auto drawn = noise(0.25, 3, dtype);
    const auto [mean, variance, kurtosis] = moments(drawn);
    CHECK(std::abs(mean) < 5 * 0.5 / std::sqrt(20000.0));
    CHECK(std::abs(variance - 0.25) < 5 * 0.25 * std::sqrt(2.0 / 20000));
    CHECK(std::abs(kurtosis - 3) < 5 * std::sqrt(24.0 / 20000));
    CHECK(noise(0.25, 3, dtype) == drawn);
    CHECK(noise(0.25, 4, dtype) != drawn);
  }
  for (double v : noise(0, 3, DType::float32)) REQUIRE(v == 0);
}

TEST_CASE("optimizer: SGLD apart from its noise is half a step of SGD", "[gluon]") {
  // The same seed gives the same noise, so a difference of two runs is that of their gradients and decays.
  const auto run = [](double gradient, double wd, double clip, double weight) {
    Parameter p("p", {40}, {.dtype = DType::float64});
    p.initialize(init::Constant(weight));
    gluon::Trainer trainer(dict(p), optimizer::SGLD({.learning_rate = 0.5, .wd = wd, .clip_gradient = clip}));
    random::seed(8);
    step(p, nd.full({40}, gradient, {.dtype = DType::float64}), trainer, 4);
    return values(p.data());
  };
  const auto noise = run(0, 0, 10, 0);
  const auto check = [&](const std::vector<double>& got, double wanted) {
    for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] - noise[i] == Approx(wanted).margin(1e-6));
  };
  check(run(2, 0, 10, 1), 1 - 0.25 * 0.5);
  check(run(2, 0.25, 10, 2), 2 - 0.25 * (0.5 + 0.25 * 2));
  check(run(-8, 0.25, 0.75, 2), 2 - 0.25 * (-0.75 + 0.25 * 2));  // the gradient is clipped, then the weight decays
}

TEST_CASE("optimizer: SGLD's samples have the distribution that they are drawn from", "[gluon]") {
  // Of the negative log-density w^2 / (2 v), v = 0.5, by 20000 independent chains.
  Parameter p("p", {20000});
  p.initialize(init::Zero());
  gluon::Trainer trainer(dict(p), optimizer::SGLD({.learning_rate = 0.05}));
  random::seed(12);
  for (int t = 0; t < 150; ++t) {
    autograd::record([&] { return nd.sum(nd.square(p.data())); }).backward();
    trainer.step(1);
  }
  const auto [mean, variance, kurtosis] = moments(values(p.data()));
  // Of the chain itself: v / (1 - lr / (4 v)).
  CHECK(std::abs(mean) < 5 * std::sqrt(0.5 / 20000));
  CHECK(std::abs(variance - 0.5 / (1 - 0.025)) < 5 * 0.5 * std::sqrt(2.0 / 20000));
  CHECK(std::abs(kurtosis - 3) < 5 * std::sqrt(24.0 / 20000));
}

TEST_CASE("optimizer: GroupAdaGrad in a TrainingStep is bit for bit that of a Trainer, SGLD follows the seed",
          "[gluon]") {
  const auto train = [](const optimizer::Optimizer& rule, bool whole, bool scaled, DType dtype, double clip) {
    random::seed(21);
    nn::HybridSequential net(nn::Dense(6, {.activation = "tanh", .in_units = 3}), nn::Dropout(0.25),
                             nn::Dense(2, {.in_units = 6}));
    net.initialize(init::Xavier());
    net.cast(dtype);
    gluon::Trainer trainer(net.collect_params(), rule, {.clip_global_norm = clip});
    if (scaled) amp::init_trainer(trainer, {.init_scale = 256});
    const gluon::loss::L2Loss loss;
    gluon::TrainingStep step(net, loss, trainer, {.static_alloc = true, .exact = true});
    for (int i = 0; i < 5; ++i) {
      // the third has a gradient that is not finite
      const double size = scaled && i == 2 ? INFINITY : 1;
      const NDArray x = (nd.arange(12).reshape({4, 3}) / (i + 8)).astype(dtype);
      const NDArray y = nd.full({4, 2}, size, {.dtype = dtype});
      if (whole) {
        step(x, y);
        continue;
      }
      autograd::record([&] {
        const NDArray l = loss(net(x), y);
        return scaled ? amp::scale_loss(l, trainer) : l;
      }).backward();
      trainer.step(4);
    }
    std::vector<double> all;
    for (const auto& p : net.collect_params()) {
      for (double v : values(p.data())) all.push_back(v);
    }
    for (double v : all) REQUIRE(std::isfinite(v));
    return all;
  };
  for (DType dtype : {DType::float32, DType::float16}) {
    const optimizer::SGLD sgld({.learning_rate = 0.01, .wd = 0.1, .multi_precision = dtype == DType::float16});
    const optimizer::GroupAdaGrad rows({.clip_gradient = 0.5, .multi_precision = dtype == DType::float16});
    for (bool scaled : {false, true}) {
      for (double clip : {0.0, 0.5}) {
        INFO(name_of(dtype) << ", scaled " << scaled << ", clip " << clip);
        // plans draw numbers of their own
        CHECK(train(sgld, true, scaled, dtype, clip) == train(sgld, true, scaled, dtype, clip));
        CHECK(train(rows, true, scaled, dtype, clip) == train(rows, false, scaled, dtype, clip));
      }
    }
  }
}

TEST_CASE("optimizer: SGLD's noise in a TrainingStep is normal, and new in each step", "[gluon]") {
  random::seed(17);
  nn::Dense net(200, {.use_bias = false, .in_units = 100});
  net.initialize(init::Zero());
  gluon::Trainer trainer(net.collect_params(), optimizer::SGLD({.learning_rate = 0.25}));
  gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
  const NDArray x = nd.zeros({4, 100}), y = nd.zeros({4, 200});
  std::vector<double> before(20000, 0), first;
  for (int i = 0; i < 2; ++i) {
    step(x, y);
    const std::vector<double> after = values(net.weight.data());
    std::vector<double> noise;
    for (size_t k = 0; k < after.size(); ++k) noise.push_back(after[k] - before[k]);
    const auto [mean, variance, kurtosis] = moments(noise);
    CHECK(std::abs(mean) < 5 * 0.5 / std::sqrt(20000.0));
    CHECK(std::abs(variance - 0.25) < 5 * 0.25 * std::sqrt(2.0 / 20000));
    CHECK(std::abs(kurtosis - 3) < 5 * std::sqrt(24.0 / 20000));
    double product = 0;
    for (size_t k = 0; k < first.size(); ++k) product += first[k] * noise[k] / 20000;
    CHECK(std::abs(product) < 5 * 0.25 / std::sqrt(20000.0));  // not correlated
    first = noise, before = after;
  }
}

TEST_CASE("optimizer: a step that amp leaves out changes neither weights nor what GroupAdaGrad keeps", "[gluon]") {
  const auto check = [](const optimizer::Optimizer& rule) {
    Parameter p = parameter({4, 3});
    gluon::Trainer trainer(dict(p), rule);
    amp::init_trainer(trainer);
    const auto taken = [&](double gradient) {
      autograd::record([&] { return amp::scale_loss(nd.sum(p.data() * gradient), trainer); }).backward();
      trainer.step(1);
    };
    taken(1);
    const std::vector<double> before = values(p.data());
    std::vector<double> states;
    for (const auto& [name, a] : trainer.states()) {
      if (name.starts_with("state")) states = values(a.copy());
    }
    taken(INFINITY);
    CHECK(values(p.data()) == before);
    for (const auto& [name, a] : trainer.states()) {
      if (name.starts_with("state")) CHECK(values(a) == states);
    }
    taken(1);
    CHECK(values(p.data()) != before);
  };
  check(optimizer::SGLD());
  check(optimizer::GroupAdaGrad());
}

TEST_CASE("optimizer: SGLD of 16 bits keeps float32 copies, which the weights follow", "[gluon]") {
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    Parameter p = parameter({50}, dtype);
    gluon::Trainer trainer(dict(p), optimizer::SGLD({.learning_rate = 1e-4, .multi_precision = true}));
    for (int t = 0; t < 3; ++t) step(p, nd.ones({50}, {.dtype = dtype}), trainer, 1);
    int copies = 0;
    for (const auto& [name, a] : trainer.states()) {
      if (!name.starts_with("state")) continue;
      ++copies;
      CHECK(a.dtype() == DType::float32);
      CHECK(values(a.astype(dtype)) == values(p.data()));
      CHECK(values(a) != values(p.data()));
    }
    CHECK(copies == 1);
  }
}

TEST_CASE("optimizer: a failed gradient leaves all weights of SGLD and GroupAdaGrad alone", "[gluon]") {
  const auto check = [](const optimizer::Optimizer& rule) {
    Parameter a("a", {3, 2}), b("b", {3, 2});
    gluon::ParameterDict both;
    for (Parameter p : {a, b}) p.initialize(init::One()), both.add(p);
    gluon::Trainer trainer(both, rule);
    const NDArray failing = nd.random_normal({3, 2}, {.scale = -1});
    autograd::record([&] { return nd.sum(a.data()) + nd.sum(b.data() * failing); }).backward();
    trainer.step(1);
    CHECK_THROWS_AS(nd.waitall(), Error);
    CHECK(values(a.data()) == std::vector<double>(6, 1));
    CHECK(values(b.data()) == std::vector<double>(6, 1));
  };
  check(optimizer::SGLD());
  check(optimizer::GroupAdaGrad());
}

TEST_CASE("optimizer: states files say whose they are", "[gluon]") {
  const ScratchFolder folder;
  const auto file = folder / "states";
  Parameter p = parameter({4, 3});
  gluon::Trainer adam(dict(p), optimizer::Adam()), adamw(dict(p), optimizer::AdamW());
  step(p, nd.ones({4, 3}), adam, 1);
  adam.save_states(file);
  CHECK_THROWS_WITH(adamw.load_states(file), Contains("states of Adam,") && Contains("of this trainer is AdamW"));
  CHECK(adamw.steps() == 0);
  CHECK_NOTHROW(gluon::Trainer(dict(p), optimizer::Adam()).load_states(file));
  // A file of a version that wrote no names.
  NamedArrays old;
  for (const auto& [name, a] : adam.states()) {
    if (!name.starts_with("optimizer:")) old.emplace_back(name, a);
  }
  REQUIRE(old.size() + 1 == adam.states().size());
  nd_file::save(file, old);
  CHECK_NOTHROW(adamw.load_states(file));
  CHECK(adamw.steps() == 1);
}

TEST_CASE("optimizer: GroupAdaGrad changes the rows that a row_sparse gradient stores, SGLD all", "[gluon]") {
  const auto train = [](bool sparse, const optimizer::Optimizer& rule) {
    random::seed(4);
    nn::Embedding net(6, 3, {.sparse_grad = sparse});
    net.initialize(init::Uniform(1));
    gluon::Trainer trainer(net.collect_params(), rule);
    for (const NDArray& x : {nd.array({2.0, 4.0, 2.0}), nd.array({4.0}), nd.array({0.0, 5.0})}) {
      autograd::record([&] { return nd.square(net(x)); }).backward();
      trainer.step(2);
    }
    return values(net.weight.data());
  };
  for (const optimizer::Optimizer& rule :
       {optimizer::Optimizer(optimizer::GroupAdaGrad()), optimizer::Optimizer(optimizer::SGLD())}) {
    const auto sparse = train(true, rule), dense = train(false, rule);
    for (size_t i = 0; i < dense.size(); ++i) CHECK(sparse[i] == Approx(dense[i]).margin(1e-6));
  }
}

TEST_CASE("trainer: a rate of a scheduler that is no rate is refused at the step", "[gluon]") {
  for (double wrong : {double(NAN), -0.5, double(INFINITY)}) {
    Parameter p = parameter({3});
    const auto schedule = lr_scheduler::CustomScheduler([=](int64_t t) { return t == 2 ? wrong : 0.1; });
    gluon::Trainer trainer(dict(p), optimizer::SGD({.lr_scheduler = schedule}));
    step(p, nd.ones({3}), trainer, 1);
    const std::vector<double> before = values(p.data());
    CHECK_THROWS_WITH(step(p, nd.ones({3}), trainer, 1), Contains("for update 2") && Contains("at least 0"));
    CHECK(values(p.data()) == before);
    CHECK(trainer.steps() == 1);
  }
}

}  // namespace composed_optimizers_test

#include "kaon/gluon/optimizer.h"

#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace optimizer_test {

using namespace kaon;
using namespace kaon::test;
using gluon::Parameter;

namespace {

// The rules once more, element by element in double.
struct Reference {
  double lr, momentum = 0, wd = 0, clip = -1, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool adam = false;
  std::vector<double> w, m = {}, v = {};
  int t = 0;

  double clipped(double g) const { return clip < 0 ? g : std::min(std::max(g, -clip), clip); }
  void step(const std::vector<double>& grad, double rescale) {
    m.resize(w.size());
    v.resize(w.size());
    ++t;
    for (size_t i = 0; i < w.size(); ++i) {
      if (adam) {
        double g = clipped(grad[i] * rescale + wd * w[i]);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        w[i] -= lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)) * m[i] / (std::sqrt(v[i]) + epsilon);
      } else {
        double change = -lr * (clipped(grad[i] * rescale) + wd * w[i]);
        m[i] = momentum * m[i] + change;
        w[i] += m[i];
      }
    }
  }
};

void check(const optimizer::Optimizer& optimizer, Reference reference, DType dtype) {
  Parameter a("a", {7}, {.dtype = dtype}), b("b", {2, 3}, {.dtype = dtype, .lr_mult = 0.5, .wd_mult = 2});
  a.initialize(init::Uniform(1));
  b.initialize(init::Uniform(1));
  gluon::ParameterDict parameters;
  parameters.add(a);
  parameters.add(b);
  Reference ra = reference, rb = reference;
  ra.w = values(a.data());
  rb.w = values(b.data());
  rb.lr *= 0.5;
  rb.wd *= 2;
  gluon::Trainer trainer(parameters, optimizer);
  double tolerance = dtype == DType::float32 ? 1e-4 : dtype == DType::float64 ? 1e-6 : 2e-2;
  for (int step = 0; step < 4; ++step) {
    NDArray ca = nd.random_normal({7}, {.scale = 3, .dtype = dtype}),
            cb = nd.random_normal({2, 3}, {.scale = 3, .dtype = dtype});
    NDArray y = autograd::record([&] { return nd.sum(ca * a.data()) + nd.sum(cb * b.data()); });
    y.backward();
    trainer.step(4);
    ra.step(values(ca), 0.25);
    rb.step(values(cb), 0.25);
    require_close(a.data(), ra.w, tolerance, tolerance);
    require_close(b.data(), rb.w, tolerance, tolerance);
  }
}

}  // namespace

TEST_CASE("optimizer: the rules against a reference", "[gluon]") {
  for (DType dtype : {DType::float32, DType::float64, DType::float16}) {
    INFO(name_of(dtype));
    check(optimizer::SGD({.learning_rate = 0.1}), {.lr = 0.1, .w = {}}, dtype);
    check(optimizer::SGD({.learning_rate = 0.1, .wd = 0.03, .clip_gradient = 0.4}),
          {.lr = 0.1, .wd = 0.03, .clip = 0.4, .w = {}}, dtype);
    check(optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9, .wd = 0.05}),
          {.lr = 0.1, .momentum = 0.9, .wd = 0.05, .w = {}}, dtype);
    if (dtype == DType::float16) continue;  // epsilon vanishes in its states
    check(optimizer::Adam({.learning_rate = 0.02}), {.lr = 0.02, .adam = true, .w = {}}, dtype);
    check(optimizer::Adam({.beta1 = 0.5, .beta2 = 0.8, .epsilon = 1e-3, .wd = 0.1, .clip_gradient = 0.3}),
          {.lr = 0.001, .wd = 0.1, .clip = 0.3, .beta1 = 0.5, .beta2 = 0.8, .epsilon = 1e-3, .adam = true, .w = {}},
          dtype);
  }
}

TEST_CASE("optimizer: learning rates and schedulers", "[gluon]") {
  optimizer::SGD plain({.learning_rate = 0.1});
  optimizer::SGD copy = plain;
  copy.set_learning_rate(0.2);
  CHECK(plain.learning_rate(0) == 0.2);
  CHECK(optimizer::SGD().learning_rate(0) == 0.01);
  CHECK(optimizer::Adam().learning_rate(0) == 0.001);
  auto schedule = lr_scheduler::FactorScheduler({.step = 2, .factor = 0.5, .base_lr = 0.3});
  optimizer::SGD scheduled({.lr_scheduler = schedule});
  CHECK(scheduled.learning_rate(1) == 0.3);
  CHECK(scheduled.learning_rate(3) == Approx(0.15));
  CHECK(optimizer::SGD({.learning_rate = 0.4, .lr_scheduler = schedule}).learning_rate(3) == Approx(0.2));
  CHECK_THROWS_AS(scheduled.set_learning_rate(0.1), StateError);
}

namespace {
struct NoRule : optimizer::Optimizer {
  NoRule() : Optimizer(nullptr, {}) {}
};
}  // namespace

TEST_CASE("optimizer: settings out of range", "[gluon]") {
  CHECK_THROWS_AS(NoRule(), ValueError);
  CHECK_THROWS_AS(optimizer::SGD({.learning_rate = -1}), ValueError);
  CHECK_THROWS_AS(optimizer::SGD({.momentum = 1}), ValueError);
  CHECK_THROWS_AS(optimizer::SGD({.wd = -1}), ValueError);
  CHECK_THROWS_AS(optimizer::SGD({.clip_gradient = -1}), ValueError);
  CHECK_THROWS_AS(optimizer::Adam({.beta2 = 1}), ValueError);
}

namespace {

// One weight by a rule that MXNet does not have, from its formula: f(w, m, v, g, t) for each element.
template <class F>
void check_formula(const optimizer::Optimizer& optimizer, F f) {
  for (DType dtype : {DType::float32, DType::float64}) {
    Parameter p("p", {37}, {.dtype = dtype});
    p.initialize(init::Uniform(1));
    gluon::ParameterDict parameters;
    parameters.add(p);
    gluon::Trainer trainer(parameters, optimizer);
    std::vector<double> w = values(p.data()), m(w.size()), v(w.size());
    for (int t = 1; t <= 6; ++t) {
      const NDArray c = nd.random_normal({37}, {.dtype = dtype});
      autograd::record([&] { return nd.sum(c * p.data()); }).backward();
      trainer.step(2);
      const std::vector<double> g = values(c);
      for (size_t i = 0; i < w.size(); ++i) f(w[i], m[i], v[i], g[i] / 2, t);
      require_close(p.data(), w, 1e-5, 1e-5);
    }
  }
}

}  // namespace

TEST_CASE("optimizer: AdamW, AdaBelief and Lion from their formulas", "[gluon]") {
  constexpr double lr = 0.02, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-3, wd = 0.1;
  const auto adam_step = [=](double& w, double m, double v, int t) {
    w -= lr * wd * w;
    w -= lr * m / (1 - std::pow(beta1, t)) / (std::sqrt(v / (1 - std::pow(beta2, t))) + epsilon);
  };
  check_formula(optimizer::AdamW({.learning_rate = lr, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .wd = wd}),
                [&](double& w, double& m, double& v, double g, int t) {
                  m = beta1 * m + (1 - beta1) * g;
                  v = beta2 * v + (1 - beta2) * g * g;
                  adam_step(w, m, v, t);
                });
  check_formula(
      optimizer::AdaBelief({.learning_rate = lr, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .wd = wd}),
      [&](double& w, double& m, double& v, double g, int t) {
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * (g - m) * (g - m) + epsilon;
        adam_step(w, m, v, t);
      });
  check_formula(optimizer::Lion({.learning_rate = lr, .beta1 = beta1, .beta2 = beta2, .wd = wd}),
                [&](double& w, double& m, double&, double g, int) {
                  const double direction = beta1 * m + (1 - beta1) * g;
                  w = w - lr * wd * w - lr * (direction > 0 ? 1 : -1);
                  m = beta2 * m + (1 - beta2) * g;
                });
}

namespace {

// Weights of 16 bits with float32 copies take the steps of float32 weights, beside a float32 weight, which has no copy;
// and go on from saved states.
template <class Optimizer, class Options>
void check_copies(Options options) {
  options.multi_precision = true;
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    Parameter narrow("a", {37}, {.dtype = dtype}), beside("b", {5}), wide("a", {37}), wide_beside("b", {5});
    for (Parameter p : {narrow, beside, wide, wide_beside}) p.initialize(init::Uniform(1));
    wide.set_data(narrow.data().astype(DType::float32));
    wide_beside.set_data(beside.data());
    gluon::ParameterDict mixed, plain;
    mixed.add(narrow), mixed.add(beside);
    plain.add(wide), plain.add(wide_beside);
    const Optimizer optimizer(options);
    std::optional<gluon::Trainer> trainer(std::in_place, mixed, optimizer);
    gluon::Trainer reference(plain, Optimizer(options));
    const ScratchFolder folder;
    for (int step = 0; step < 6; ++step) {
      const NDArray c = nd.random_normal({37}, {.dtype = dtype}), d = nd.random_normal({5});
      autograd::record([&] {
        return nd.sum(c * narrow.data()).astype(DType::float32) + nd.sum(d * beside.data());
      }).backward();
      trainer->step(4);
      const NDArray wide_c = c.astype(DType::float32);
      autograd::record([&] { return nd.sum(wide_c * wide.data()) + nd.sum(d * wide_beside.data()); }).backward();
      reference.step(4);
      require_close(narrow.data(), values(wide.data()), dtype == DType::float16 ? 1e-3 : 8e-3, 1e-4);
      REQUIRE(values(beside.data()) == values(wide_beside.data()));
      if (step == 2) {
        trainer->save_states(folder / "states");
        trainer.emplace(mixed, optimizer);
        trainer->load_states(folder / "states");
      }
    }
  }
}

}  // namespace

TEST_CASE("optimizer: float32 copies of weights of 16 bits, by every rule", "[gluon]") {
  namespace o = optimizer;
  check_copies<o::SGD>(o::SGDOptions{});
  check_copies<o::SGD>(o::SGDOptions{.momentum = 0.9, .wd = 0.1});
  check_copies<o::NAG>(o::NAGOptions{.momentum = 0.9});
  check_copies<o::Signum>(o::SignumOptions{.momentum = 0});
  check_copies<o::Signum>(o::SignumOptions{.wd_lh = 0.1});
  check_copies<o::Lion>(o::LionOptions{});
  check_copies<o::Adam>(o::AdamOptions{.clip_gradient = 0.1});
  check_copies<o::AdamW>(o::AdamWOptions{});
  check_copies<o::AdaBelief>(o::AdaBeliefOptions{});
  check_copies<o::Adamax>(o::AdamaxOptions{});
  check_copies<o::Nadam>(o::NadamOptions{});
  check_copies<o::AdaGrad>(o::AdaGradOptions{});
  check_copies<o::GroupAdaGrad>(o::GroupAdaGradOptions{});
  check_copies<o::AdaDelta>(o::AdaDeltaOptions{});
  check_copies<o::RMSProp>(o::RMSPropOptions{});
  check_copies<o::RMSProp>(o::RMSPropOptions{.centered = true, .clip_weights = 0.5});
  check_copies<o::Ftrl>(o::FtrlOptions{});
  check_copies<o::FTML>(o::FTMLOptions{});
  check_copies<o::DCASGD>(o::DCASGDOptions{.momentum = 0.5});
  check_copies<o::LARS>(o::LARSOptions{.learning_rate = 1, .momentum = 0.9});
  check_copies<o::LBSGD>(o::LBSGDOptions{.momentum = 0.9, .batch_scale = 2});
  check_copies<o::LAMB>(o::LAMBOptions{.lower_bound = 0.1, .upper_bound = 10});
}

TEST_CASE("optimizer: float16 weights that a step is too small for move in float32", "[gluon]") {
  Parameter p("p", {3}, {.dtype = DType::float16});
  p.initialize(init::One());
  gluon::ParameterDict parameters;
  parameters.add(p);
  gluon::Trainer trainer(parameters, optimizer::SGD({.learning_rate = 1e-5, .multi_precision = true}));
  for (int i = 0; i < 100; ++i) {
    autograd::record([&] { return nd.sum(p.data()); }).backward();
    trainer.step(1);
  }
  require_close(p.data(), {0.999, 0.999, 0.999}, 0, 5e-4);
  CHECK(values(p.data())[0] < 1);
}

TEST_CASE("optimizer: settings of each rule out of range", "[gluon]") {
  namespace o = optimizer;
  CHECK_THROWS_AS(o::NAG({.momentum = -0.1}), ValueError);
  CHECK_THROWS_AS(o::Signum({.wd_lh = -1}), ValueError);
  CHECK_THROWS_AS(o::Lion({.beta1 = 1}), ValueError);
  CHECK_THROWS_AS(o::AdamW({.epsilon = NAN}), ValueError);
  CHECK_THROWS_AS(o::RMSProp({.gamma1 = 2}), ValueError);
  CHECK_THROWS_AS(o::RMSProp({.clip_weights = -1}), ValueError);
  CHECK_THROWS_AS(o::Ftrl({.lamda1 = -1}), ValueError);
  CHECK_THROWS_AS(o::LARS({.eta = -1}), ValueError);
  CHECK_THROWS_AS(o::GroupAdaGrad({.eps = 0}), ValueError);
  CHECK_THROWS_AS(o::SGLD({.wd = -1}), ValueError);
  CHECK_THROWS_AS(o::LBSGD({.batch_scale = 0}), ValueError);
  CHECK_THROWS_AS(o::LAMB({.lower_bound = -1}), ValueError);
}

}  // namespace optimizer_test

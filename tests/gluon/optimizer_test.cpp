#include "kaon/gluon/optimizer.h"

#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/support.h"

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

// Losses and layers as textbooks write them, whose plans fuse pointwise operators with reductions: a value is used
// again behind the last value that leaves the fused group. Hybridized in each way, they equal the imperative run.
#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace textbook_programs_test {

using namespace kaon;
using namespace kaon::test;

namespace {

constexpr int units = 24;

// fn(F, h) of a Dense layer's output h (batch, units).
template <class Fn>
struct Program : gluon::HybridBlock<Program<Fn>> {
  nn::Dense fc;
  Fn fn;
  explicit Program(Fn f) : fc(this->child("fc", nn::Dense(units))), fn(f) {}
  auto hybrid_forward(auto F, auto x) { return fn(F, fc(x)); }
};

struct Result {
  std::vector<double> output, weight_gradient;
};

template <class Net>
Result run(const Net& net, const NDArray& x, bool training) {
  if (!training) return {values(net(x)), {}};
  const NDArray y = autograd::record([&] { return net(x); });
  y.backward();
  return {values(y), values(net.fc.weight.grad())};
}

// 64 rows are far above the 128 elements of a block of a fused program, one row lies below.
template <class Fn>
void check(const char* name, Fn fn) {
  Program<Fn> net = ready(Program<Fn>(fn), 3);
  for (int64_t rows : {64, 11, 1}) {
    const NDArray x = numbers({rows, 8}, 5);
    for (bool training : {false, true}) {
      net.hybridize(false);
      const Result expected = run(net, x, training);
      for (const HybridizeOptions& options : {HybridizeOptions{.exact = true}, HybridizeOptions{.static_alloc = true},
                                              HybridizeOptions{.mirror = true}}) {
        net.hybridize(options);
        const Result got = run(net, x, training);
        INFO(name << ", " << rows << " rows, " << (training ? "training" : "predicting")
                  << (options.exact    ? ", exact"
                      : options.mirror ? ", mirror"
                                       : ""));
        if (options.exact) {
          CHECK(got.output == expected.output);
          CHECK(got.weight_gradient == expected.weight_gradient);
        } else {
          require_close(got.output, expected.output, 1e-4, 1e-5);
          require_close(got.weight_gradient, expected.weight_gradient, 1e-3, 1e-4);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("textbook programs: losses equal the imperative run", "[gluon][hybrid]") {
  check("KL term of a VAE", [](auto F, auto h) {
    auto e = F.exp(h);
    return F.sum(e + F.square(h) - 1 - h) * 0.5;
  });
  check("KL term, written with a sign", [](auto F, auto h) { return F.sum(1 + h - F.exp(h)) * -0.5; });
  check("Gaussian likelihood", [](auto F, auto h) {
    auto p = F.tanh(h);
    return F.mean(p + F.square(h) * F.exp(-p), {.axis = {1}});
  });
  check("residual relu, mean", [](auto F, auto h) { return F.mean(F.relu(h) + h, {.axis = {1}}); });
  check("residual sigmoid, mean", [](auto F, auto h) { return F.mean(F.sigmoid(h) + h); });
  check("tanh minus its input, sum", [](auto F, auto h) { return F.sum(F.tanh(h) - h, {.axis = {1}}); });
  check("gate times value", [](auto F, auto h) {
    auto g = F.sigmoid(h);
    return F.sum(g * 0.5 + h * g, {.axis = {1}});
  });
  check("entropy of a softmax", [](auto F, auto h) {
    auto p = F.softmax(h);
    return p * F.sum(p * F.log(p), {.axis = {1}, .keepdims = true});
  });
}

TEST_CASE("textbook programs: layers equal the imperative run", "[gluon][hybrid]") {
  const auto row = [](auto F, auto v) { return F.sum(v, {.axis = {1}, .keepdims = true}); };
  check("p - sum(p h)", [=](auto F, auto h) {
    auto p = F.sigmoid(h);
    return p - row(F, p * h);
  });
  check("e sum(e h)", [=](auto F, auto h) {
    auto e = F.exp(h);
    return e * row(F, e * h);
  });
  check("u + sum(u h)", [=](auto F, auto h) {
    auto u = h + 3;
    return u + row(F, u * h);
  });
  check("u max(u - h)", [](auto F, auto h) {
    auto u = F.square(h);
    return u * F.max(u - h, {.axis = {1}, .keepdims = true});
  });
  check("u / sum(h + u)", [=](auto F, auto h) {
    auto u = h * 2;
    return u / (row(F, F.abs(h) + F.abs(u)) + 1);
  });
  check("standardise", [](auto F, auto h) {
    auto c = h - F.mean(h, {.axis = {1}, .keepdims = true});
    return c * F.rsqrt(F.mean(F.square(c), {.axis = {1}, .keepdims = true}) + 1e-5);
  });
  check("two outputs, one reduction", [=](auto F, auto h) {
    auto a = F.exp(h);
    auto b = a + 1;
    return F.concat(a, b) * row(F, b * h - a);
  });
}

TEST_CASE("textbook programs: a reduction of a reduction", "[gluon][hybrid]") {
  check("mean of row sums", [](auto F, auto h) { return F.mean(F.sum(F.square(h - 1), {.axis = {1}})); });
  check("max of row sums of a product", [](auto F, auto h) { return F.max(F.sum(h * F.tanh(h), {.axis = {1}})); });
  check("the middle axis, then all", [](auto F, auto h) {
    auto v = F.exp(F.reshape(h, {0, 4, 6}));
    auto rows = F.sum(v, {.axis = {2}});
    return F.sum(F.max(rows, {.axis = {1}}) + F.sum(rows, {.axis = {1}}));
  });
  check("mean over the batch of a mean",
        [](auto F, auto h) { return F.mean(F.square(h - 1) * 0.5) + F.mean(F.mean(F.square(h + 2), {.axis = {1}})); });
}

namespace {

// A net whose output feeds itself past an activation.
struct ResidualNet : gluon::HybridBlock<ResidualNet> {
  nn::Dense fc = child("fc", nn::Dense(units));
  auto hybrid_forward(auto F, auto x) {
    auto h = fc(x);
    return F.relu(h) + h;
  }
};

// The loss of each of five steps, taken as one operation or call by call.
template <class Net, class Loss>
std::vector<double> losses_of_steps(Net net, Loss loss, bool as_step, const HybridizeOptions& options) {
  kaon::random::seed(4);
  net.initialize(init::Normal(0.5));
  const NDArray x = numbers({64, 8}, 2), y = nd.abs(numbers({64, units}, 3));
  net(x);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05}));
  std::optional<gluon::TrainingStep> step;
  if (as_step) step.emplace(net, loss, trainer, options);
  std::vector<double> all;
  for (int i = 0; i < 5; ++i) {
    NDArray l;
    if (step) {
      l = (*step)(x, y);
    } else {
      l = autograd::record([&] { return loss(net(x), y); });
      l.backward();
      trainer.step(64);
    }
    all.push_back(l.mean().template asscalar<double>());
  }
  return all;
}

template <class Net, class Loss>
void check_steps(Net (*make)(), Loss loss) {
  const std::vector<double> expected = losses_of_steps(make(), loss, false, {});
  CHECK(expected.back() < expected.front());
  CHECK(losses_of_steps(make(), loss, true, {.exact = true}) == expected);
  require_close(losses_of_steps(make(), loss, true, {.static_alloc = true}), expected, 1e-4, 1e-5);
}

}  // namespace

TEST_CASE("textbook programs: a TrainingStep learns as record, backward and step do", "[gluon][hybrid]") {
  const gluon::loss::L2Loss l2;
  check_steps<ResidualNet>([] { return ResidualNet(); }, l2);
  check_steps<ResidualNet>([] { return ResidualNet(); },
                           [l2](const auto& p, const auto& label) mutable { return l2(p, label).mean(); });
  check_steps<nn::Dense>([] { return nn::Dense(units, {.activation = "sigmoid"}); },
                         gluon::loss::SigmoidBCELoss({.from_sigmoid = true}));
}

}  // namespace textbook_programs_test

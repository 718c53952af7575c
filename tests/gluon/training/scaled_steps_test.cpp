// Clipping, losses in a scale and several devices in a Trainer: what golden data does not show.
#include <limits>

#include "kaon/gluon/kvstore/kvstore.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/gluon/util/array_lists.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace scaled_steps_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

// A rule of the program's own, which takes no factor.
class OwnRule final : public optimizer::Rule {
 public:
  int num_states() const override { return 0; }
  NDArray update(std::span<const NDArray* const> arrays, const optimizer::StepOptions& options,
                 const std::source_location& site) const override {
    return nd._kaon_multi_update2(arrays, {{.rescale_grad = options.rescale_grad}}, site);
  }
  int num_numbers() const override { return 4; }
  void numbers(const optimizer::WeightStep& step, std::span<double> out) const override {
    out[0] = step.lr, out[1] = step.wd, out[2] = out[3] = 1;
  }
};
struct Own : optimizer::Optimizer {
  explicit Own(double lr) : Optimizer(std::make_unique<OwnRule>(), {.learning_rate = lr}) {}
};

gluon::Parameter ones(const char* name, DType dtype = DType::float32) {
  gluon::Parameter p(name, {4}, {.dtype = dtype});
  p.initialize(init::One());
  return p;
}
gluon::ParameterDict dict(const gluon::Parameter& a, const gluon::Parameter& b) {
  gluon::ParameterDict all;
  all.add(a), all.add(b);
  return all;
}
void backward(const gluon::Parameter& p, double gradient) {
  autograd::record([&] { return p.data() * gradient; }).backward();
}
constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("trainer: a rule that takes no factor is clipped too, and cannot scale losses", "[gluon]") {
  for (bool own : {false, true}) {
    const gluon::Parameter a = ones("a"), b = ones("b", DType::float64);
    const optimizer::Optimizer rule =
        own ? optimizer::Optimizer(Own(0.5)) : optimizer::Optimizer(optimizer::SGD({.learning_rate = 0.5}));
    gluon::Trainer trainer(dict(a, b), rule, {.clip_global_norm = 2});
    backward(a, 3), backward(b, 4);  // of norm 10, 5 by the batch size
    trainer.step(2);
    require_close(a.data(), std::vector<double>(4, 1 - 0.5 * 1.5 * 0.4));
    require_close(b.data(), std::vector<double>(4, 1 - 0.5 * 2 * 0.4));
    if (own) CHECK_THROWS_WITH(amp::init_trainer(trainer), Contains("takes no factor"));
  }
  gluon::Trainer lbsgd(dict(ones("a"), ones("b")), optimizer::LBSGD());
  CHECK_THROWS_AS(amp::init_trainer(lbsgd), StateError);
}

TEST_CASE("trainer: clipping does not hide gradients that are not finite", "[gluon]") {
  for (double bad : {double(not_a_number), double(inf), -inf}) {
    const gluon::Parameter a = ones("a"), b = ones("b");
    gluon::Trainer trainer(dict(a, b), optimizer::SGD({.learning_rate = 0.5}), {.clip_global_norm = 2});
    backward(a, 1), backward(b, bad);
    trainer.step(1);
    CHECK(std::isnan(values(a.data())[0]));
    CHECK(std::isnan(values(b.data())[0]));
  }
}

TEST_CASE("amp: a step that overflows changes nothing, in 16 bits too, and the scale has bounds", "[gluon]") {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    INFO(name_of(dtype));
    const gluon::Parameter a = ones("a", dtype), b = ones("b", dtype);
    gluon::Trainer trainer(dict(a, b), optimizer::Adam({.learning_rate = 0.5, .multi_precision = true}));
    amp::init_trainer(trainer,
                      {.init_scale = 8, .scale_factor = 4, .scale_window = 1, .min_scale = 1, .max_scale = 16});
    const auto step = [&](double gradient) {
      autograd::record([&] { return amp::scale_loss(a.data() * gradient + b.data(), trainer); }).backward();
      trainer.step(1);
      return values(trainer.loss_scale())[0];
    };
    CHECK(step(not_a_number) == 2);
    CHECK(step(inf) == 1);
    CHECK(step(-inf) == 1);
    CHECK(values(a.data()) == std::vector<double>(4, 1));
    CHECK(values(b.data()) == std::vector<double>(4, 1));
    CHECK(step(1) == 4);
    CHECK(values(a.data())[0] < 1);
    CHECK(step(1) == 16);
    CHECK(step(1) == 16);
  }
}

TEST_CASE("amp: what is wrong is said", "[gluon]") {
  const gluon::Parameter a = ones("a"), b = ones("b");
  gluon::Trainer trainer(dict(a, b), optimizer::SGD());
  CHECK_THROWS_WITH(amp::scale_loss(nd.ones({1}), trainer), Contains("call amp::init_trainer() first"));
  CHECK_THROWS_AS(amp::unscale(trainer), StateError);
  CHECK_THROWS_AS(trainer.loss_scale(), StateError);
  CHECK_THROWS_AS(amp::init_trainer(trainer, {.scale_factor = 1}), ValueError);
  CHECK_THROWS_AS(amp::init_trainer(trainer, {.init_scale = not_a_number}), ValueError);
  CHECK_THROWS_AS(amp::init_trainer(trainer, {.min_scale = 8, .max_scale = 4}), ValueError);
  CHECK_THROWS_AS(amp::init_trainer(trainer, {.init_scale = 0.5}), ValueError);
  amp::init_trainer(trainer);
  CHECK_THROWS_WITH(amp::init_trainer(trainer, {.scale_window = 3}), Contains("are scaled already"));
  backward(a, 1), backward(b, 1);
  CHECK_THROWS_WITH(trainer.step(1), Contains("none was since the last step"));
  amp::unscale(trainer);
  CHECK_THROWS_WITH(amp::unscale(trainer), Contains("have been divided already"));
  CHECK(values(a.data()) == std::vector<double>(4, 1));
  CHECK_THROWS_AS(gluon::Trainer(dict(a, b), optimizer::SGD(), {.clip_global_norm = -1}), ValueError);
  CHECK_THROWS_AS(gluon::Trainer(dict(a, b), optimizer::SGD(), {.clip_global_norm = not_a_number}), ValueError);
  CHECK_THROWS_WITH(gluon::Trainer(dict(a, b), optimizer::SGD(), {.kvstore = "dist_async"}),
                    Contains("no type 'dist_async'; there are: local, device"));
}

TEST_CASE("amp: a training step of many samples is the loop that scales by hand, with its outputs", "[gluon]") {
  const gluon::loss::L2Loss loss;
  const NDArray x = nd.eye(3), y = nd.array({{0.5}, {0}, {2}});
  const auto made = [] {
    nn::Dense net(1, {.use_bias = false, .in_units = 3});
    net.initialize(init::One());
    return net;
  };
  for (double clip : {0.0, 0.25}) {
    nn::Dense by_hand = made(), net = made();
    gluon::Trainer own(by_hand.collect_params(), optimizer::SGD({.learning_rate = 1}), {.clip_global_norm = clip});
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 1}), {.clip_global_norm = clip});
    amp::init_trainer(own, {.init_scale = 1024});
    amp::init_trainer(trainer, {.init_scale = 1024});
    gluon::TrainingStep step(
        [&](auto a, auto b) {
          auto p = net(a);
          return std::pair(loss(p, b), p);
        },
        trainer, {.static_alloc = true, .exact = true});
    for (int i = 0; i < 3; ++i) {
      const NDArray pred = by_hand(x);
      NDArray l;
      autograd::record([&] { return amp::scale_loss(l = loss(by_hand(x), y), own); }).backward();
      own.step(3);
      CHECK(values(step(x, y)) == values(l));
      REQUIRE(step.outputs().size() == 1);
      CHECK(values(step.outputs()[0]) == values(pred));
      CHECK(values(net.weight.data()) == values(by_hand.weight.data()));
    }
  }
}

TEST_CASE("training step: a net that changes after the first step is seen", "[gluon]") {
  nn::HybridSequential net(nn::Dense(3), nn::Dense(1));
  net.initialize(init::One());
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
  const NDArray x = nd.ones({2, 4}), y = nd.ones({2, 1});
  step(x, y);
  gluon::HookHandle hook =
      net.register_forward_hook([](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) {});
  CHECK_THROWS_WITH(step(x, y), Contains("has hooks, which a plan does not call"));
  hook.detach();
  step(x, y);
  nn::AnyBlock inner = net[0];
  hook = inner.register_forward_hook([](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) {});
  CHECK_THROWS_AS(step(x, y), StateError);
  hook.detach();
  CHECK(step(x, y).dtype() == DType::float32);
  net.replace(1, nn::Dense(1, {.use_bias = false}));
  CHECK_THROWS_WITH(step(x, y), Contains("the loss does not depend on") || Contains("is not initialized"));
}

TEST_CASE("trainer: several devices", "[gluon]") {
  const std::vector<Device> two{cpu(0), cpu(1)};
  nn::Dense net(2, {.in_units = 3});
  net.initialize(init::One(), two);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.5, .momentum = 0.9}));
  const gluon::loss::L2Loss loss;
  const auto backward_on = [&](Device d) {
    const NDArray x = nd.ones({2, 3}, {.device = d}), y = nd.zeros({2, 2}, {.device = d});
    autograd::record([&] { return loss(net(x), y); }).backward();
  };
  backward_on(cpu(0));
  CHECK_THROWS_WITH(trainer.step(4), Contains("has not been written by backward() since the last step"));
  backward_on(cpu(1));
  trainer.step(4);
  CHECK(values(net.weight.data(cpu(0))) == values(net.weight.data(cpu(1))));
  CHECK(values(net.weight.data(cpu(0)))[0] != 1);
  const ScratchFolder folder;
  trainer.save_states(folder / "s");
  trainer.load_states(folder / "s");
  gluon::TrainingStep step(net, loss, trainer);
  CHECK_THROWS_WITH(step(nd.ones({2, 3}), nd.zeros({2, 2})), Contains("weight is on 2 devices"));
  gluon::KVStore store = gluon::KVStore::create();
  store.init(3, nd.ones({2}));
  CHECK_THROWS_WITH(store.init("3", nd.ones({2})), Contains("'3' has a value"));
  CHECK_THROWS_WITH(store.push(4, nd.ones({2})), Contains("'4' has no value: call init() first"));
  CHECK_THROWS_AS(store.pull("x", nd.ones({2})), ValueError);
  const std::vector<NDArray> unlike{nd.ones({2}), nd.ones({3})};
  CHECK_THROWS_AS(store.push(3, unlike), ShapeError);
  CHECK_THROWS_WITH(store.push(3, nd.ones({1})), Contains("'3' has shape (2,), what is pushed has (1,)"));
  CHECK_THROWS_AS(store.pull(3, nd.ones({3, 2})), ShapeError);
  CHECK_THROWS_AS(store.pull(3, nd.ones({2}, {.dtype = DType::int32})), TypeError);
  CHECK_THROWS_AS(store.push(3, nd.ones({2}, {.dtype = DType::int32})), TypeError);
  CHECK_THROWS_AS(store.push(3, std::span<const NDArray>()), ValueError);
  CHECK_THROWS_AS(store.save_optimizer_states(folder / "k"), StateError);
  store.set_optimizer(optimizer::SGD({.learning_rate = 0.5, .momentum = 0.5}));
  store.init("a/b", nd.ones({3}));
  for (int i = 0; i < 2; ++i) store.push(3, nd.ones({2})), store.push("a/b", nd.ones({3}));
  store.save_optimizer_states(folder / "k");
  NDArray first = nd.zeros({2}), second = nd.zeros({2});
  store.push(3, nd.ones({2})), store.pull(3, first);
  store.load_optimizer_states(folder / "k");
  store.push(3, nd.ones({2})), store.pull(3, second);
  // -0.75 + momentum 0.5 (-0.75) - 0.5 again: the states are those of before the first
  CHECK(values(first)[0] - values(second)[0] == Approx(0.5 + 0.5 * 0.75));
  store.set_updater([](const gluon::KVKey& key, const NDArray& sum, const NDArray& stored) {
    CHECK(key.str() == "3");
    NDArray(stored).assign(sum * 2);
  });
  store.push(3, nd.ones({2})), store.pull(3, first);
  CHECK(values(first) == std::vector<double>{2, 2});
}

TEST_CASE("trainer: a rate that is refused leaves the gradients of several devices as they are", "[gluon]") {
  const std::vector<Device> two{cpu(0), cpu(1)};
  gluon::Parameter p("p", {2});
  p.initialize(init::One(), two);
  gluon::ParameterDict one;
  one.add(p);
  const auto negative = lr_scheduler::CustomScheduler([](int64_t) { return -1.0; });
  gluon::Trainer trainer(one, optimizer::SGD({.lr_scheduler = negative}));
  for (Device d : two) autograd::record([&] { return p.data(d) * 3; }).backward();
  CHECK_THROWS_AS(trainer.step(1), ValueError);
  for (Device d : two) CHECK(values(p.grad(d)) == std::vector<double>{3, 3});
}

TEST_CASE("amp: a step without a scaled loss leaves the gradients of several devices as they are", "[gluon]") {
  const std::vector<Device> two{cpu(0), cpu(1)};
  gluon::Parameter p("p", {2});
  p.initialize(init::One(), two);
  gluon::ParameterDict one;
  one.add(p);
  gluon::Trainer trainer(one, optimizer::SGD());
  amp::init_trainer(trainer);
  for (Device d : two) autograd::record([&] { return p.data(d) * 3; }).backward();
  CHECK_THROWS_WITH(trainer.step(1), Contains("none was since the last step"));
  for (Device d : two) CHECK(values(p.grad(d)) == std::vector<double>{3, 3});
}

}  // namespace scaled_steps_test

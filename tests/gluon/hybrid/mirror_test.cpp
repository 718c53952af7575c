// hybridize({.mirror = true}): less memory in training, the same bits.
#include <fmt/format.h>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/gluon/nn/transformer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace mirror_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

struct Trained {
  std::vector<std::vector<double>> values;
  size_t arena = 0;
  std::string report;
};

// Two recorded calls and steps; outputs, gradients, parameters and running statistics.
template <class Make>
Trained train(Make make, const Shape& shape, const HybridizeOptions& options) {
  auto net = ready(make(), 7);
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
  net(numbers(shape));
  net.hybridize(options);
  kaon::random::seed(3);
  Trained t;
  for (uint32_t i = 0; i < 2; ++i) {
    NDArray x = numbers(shape, i + 2);
    x.attach_grad();
    NDArray y = autograd::record([&] { return net(x); });
    y.backward(numbers(y.shape(), i + 9));
    t.values.push_back(values(y)), t.values.push_back(values(x.grad()));
    trainer.step(1);
  }
  for (const gluon::Parameter& p : net.collect_params()) t.values.push_back(values(p.data()));
  const auto plan = net.plan();
  t.arena = plan->arena_bytes();
  t.report = plan->memory();
  return t;
}

// At most this part of the memory without.
template <class Make>
void check_mirror(Make make, const Shape& shape, double part) {
  for (bool exact : {true, false}) {
    INFO((exact ? "exact" : "fast"));
    const Trained without = train(make, shape, {.static_alloc = true, .exact = exact, .branches = false});
    const Trained with = train(make, shape, {.static_alloc = true, .exact = exact, .mirror = true});
    CHECK(with.values == without.values);
    CHECK(train(make, shape, {.exact = exact, .mirror = true, .verify = 2}).values == without.values);
    INFO(with.arena << " bytes, without " << without.arena);
    CHECK(double(with.arena) <= part * double(without.arena));
    CHECK_THAT(without.report, !Contains("computed again"));
    if (part < 1) CHECK_THAT(with.report, Contains("computed again"));
  }
}

struct LeNet : gluon::HybridBlock<LeNet> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(6, {.kernel_size = 5}));
  nn::MaxPool2D pool1 = child("pool1", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(16, {.kernel_size = 5}));
  nn::MaxPool2D pool2 = child("pool2", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(120));
  nn::Dense fc2 = child("fc2", nn::Dense(10));
  LeNet() : HybridBlock("lenet") {}
  auto hybrid_forward(auto F, auto x) {
    x = pool1(F.relu(conv1(x)));
    x = pool2(F.relu(conv2(x)));
    return fc2(F.relu(fc1(F.reshape(x, {0, -1}))));
  }
};

auto gelu_mlp() {
  return nn::HybridSequential(nn::Dense(64), nn::GELU(), nn::Dense(64), nn::GELU(), nn::Dense(64), nn::GELU(),
                              nn::Dense(10));
}

}  // namespace

TEST_CASE("mirror: an MLP with activations", "[gluon]") { check_mirror(gelu_mlp, {32, 64}, 0.85); }

TEST_CASE("mirror: Dropout is repeated from its mask", "[gluon]") {
  check_mirror(
      [] {
        return nn::HybridSequential(nn::Dense(64, {.activation = "relu"}), nn::Dropout(0.5),
                                    nn::Dense(64, {.activation = "relu"}), nn::Dropout(0.3), nn::Dense(10));
      },
      {32, 64}, 0.95);
}

// The backward of the first pooling needs its input and output, and the gradients of both, at once: nothing lowers
// that.
TEST_CASE("mirror: LeNet", "[gluon]") {
  check_mirror([] { return LeNet(); }, {8, 1, 28, 28}, 1);
}

TEST_CASE("mirror: ResNet-18", "[gluon][unsanitized]") {
  check_mirror([] { return gluon::model_zoo::vision::resnet18_v1({.classes = 10}); }, {2, 3, 64, 64}, 0.75);
}

TEST_CASE("mirror: a transformer's cell", "[gluon]") {
  check_mirror([] { return nn::TransformerEncoderCell(32, 128, 4); }, {4, 16, 32}, 0.96);
}

TEST_CASE("mirror: a net that has nothing to repeat keeps its plan", "[gluon]") {
  auto make = [] { return nn::HybridSequential(nn::Dense(16, {.activation = "relu"}), nn::Dense(4)); };
  const Trained without = train(make, {4, 8}, {.branches = false}), with = train(make, {4, 8}, {.mirror = true});
  CHECK(with.values == without.values);
  CHECK(with.arena == without.arena);
}

TEST_CASE("mirror: a training step as one operation", "[gluon]") {
  auto make = [] {
    nn::HybridSequential net;
    for (int i = 0; i < 4; ++i) {
      net.add(nn::Conv2D(8, {.kernel_size = 3, .padding = 1}), nn::BatchNorm(), nn::Activation("relu"));
    }
    net.add(nn::MaxPool2D({.pool_size = 2}), nn::Dense(32), nn::GELU(), nn::Dropout(0.3), nn::Dense(10));
    return net;
  };
  for (bool exact : {true, false}) {
    std::vector<std::vector<double>> results[2];
    size_t arena[2];
    for (bool mirror : {false, true}) {
      auto net = ready(make(), 7);
      gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
      gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9}));
      gluon::TrainingStep step(net, loss_fn, trainer,
                               {.static_alloc = true, .exact = exact, .mirror = mirror, .branches = false});
      kaon::random::seed(3);
      for (uint32_t i = 0; i < 4; ++i) {
        NDArray label = nd.floor((numbers({16}, 100 + i) + 1) * 5);
        results[mirror].push_back(values(step(numbers({16, 3, 12, 12}, i), label)));
      }
      for (const gluon::Parameter& p : net.collect_params()) results[mirror].push_back(values(p.data()));
      arena[mirror] = step.plan()->arena_bytes();
    }
    CHECK(results[0] == results[1]);
    INFO(arena[1] << " bytes, without " << arena[0]);
    CHECK(arena[1] < arena[0]);
  }
}

TEST_CASE("mirror: gradients of gradients", "[gluon]") {
  std::vector<std::vector<double>> results[2];
  for (bool mirror : {false, true}) {
    auto net = ready(gelu_mlp(), 7);
    NDArray x = numbers({8, 64});
    net(x);
    net.hybridize({.exact = true, .mirror = mirror});
    x.attach_grad();
    autograd::record([&] { return autograd::grad(net(x), x, true); }).backward();
    results[mirror].push_back(values(x.grad()));
    for (const gluon::Parameter& p : net.collect_params()) results[mirror].push_back(values(p.grad()));
  }
  CHECK(results[0] == results[1]);
}

}  // namespace mirror_test

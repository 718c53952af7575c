// hybridize({.verify = n}): nets that are right pass and train as without, a value that has changed since the trace is
// told.
#include <fmt/format.h>

#include <thread>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/transformer.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace verify_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

using gluon::loss::SoftmaxCrossEntropyLoss;

// Convolutions, running statistics, dropout: what plans fuse, update and draw.
struct ConvNet : gluon::HybridBlock<ConvNet> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(16, {.kernel_size = 3, .padding = 1}));
  nn::BatchNorm norm = child("norm", nn::BatchNorm());
  nn::MaxPool2D pool = child("pool", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(16, {.kernel_size = 3}));
  nn::Dense fc1 = child("fc1", nn::Dense(20, {.activation = "tanh"}));
  nn::Dropout drop = child("drop", nn::Dropout(0.3));
  gluon::Parameter fc2_weight = param("fc2_weight", {10, 20});
  ConvNet() : HybridBlock("convnet") {}
  auto hybrid_forward(auto F, auto x) {
    x = pool(F.relu(norm(conv1(x))));
    x = F.relu(conv2(x));
    x = drop(fc1(F.reshape(x, {0, -1})));
    return F.dot(x, F(fc2_weight), {.transpose_b = true});
  }
};

enum class Way { record, step };

// Losses, parameters and statistics of a few steps, predictions in between, and what the engine would draw next.
template <class Make>
std::vector<std::vector<double>> train(Make make, const Shape& shape, Way way, const HybridizeOptions& options,
                                       DType dtype = DType::float32) {
  auto net = ready(make(), 7);
  if (dtype != DType::float32) net.cast(dtype);
  SoftmaxCrossEntropyLoss loss_fn;
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.5}));
  net.hybridize(options);
  loss_fn.hybridize(options);
  gluon::TrainingStep step(net, loss_fn, trainer, options);
  std::vector<NDArray> arrays;
  for (int i = 0; i < 4; ++i) {
    Shape s = shape;
    if (i == 3) s[0] = 1;
    const NDArray data = numbers(s, uint32_t(i + 1)).astype(dtype);
    const NDArray label = nd.floor((numbers({s[0]}, uint32_t(100 + i)) + 1) * 2);
    if (way == Way::step) {
      arrays.push_back(step(data, label));
    } else {
      arrays.push_back(autograd::record([&] { return loss_fn(net(data), label); }));
      arrays.back().backward();
      trainer.step(s[0]);
    }
    arrays.push_back(net(data));
  }
  for (const gluon::Parameter& p : net.collect_params()) arrays.push_back(p.data());
  arrays.push_back(nd.random_uniform({4}));
  std::vector<std::vector<double>> all;
  for (const NDArray& a : arrays) all.push_back(values(a));
  return all;
}

template <class Make>
void check(Make make, const Shape& shape, DType dtype = DType::float32) {
  for (Way way : {Way::record, Way::step}) {
    for (bool exact : {false, true}) {
      INFO((way == Way::step ? "training step" : "record and backward") << (exact ? ", exact" : ""));
      const HybridizeOptions without{.static_alloc = exact, .exact = exact};
      HybridizeOptions with = without;
      with.verify = 2;
      CHECK(train(make, shape, way, with, dtype) == train(make, shape, way, without, dtype));
    }
  }
}

template <class Body>
struct Lambda : gluon::HybridBlock<Lambda<Body>> {
  Body body;
  explicit Lambda(Body b) : gluon::HybridBlock<Lambda<Body>>("lambda"), body(b) {}
  auto hybrid_forward(auto F, auto x) { return body(F, x); }
};

}  // namespace

TEST_CASE("verify: nets pass, and train as those that are not verified", "[gluon]") {
  SECTION("mlp") {
    check([] { return Mlp(); }, {5, 7});
  }
  SECTION("convolutions, statistics, dropout") {
    check([] { return ConvNet(); }, {3, 3, 10, 10});
  }
  SECTION("transformer") {
    check(
        [] {
          return nn::HybridSequential(nn::TransformerEncoderCell(8, 16, 2, {.dropout = 0.2}), nn::Flatten(),
                                      nn::Dense(4));
        },
        {3, 5, 8});
  }
}

TEST_CASE("verify: nets of other floats pass", "[gluon]") {
  const DType dtype = GENERATE(DType::float64, DType::float16, DType::bfloat16);
  INFO(name_of(dtype));
  check([] { return ConvNet(); }, {3, 3, 10, 10}, dtype);
}

TEST_CASE("users row 27: a C++ number that has changed since the trace is told, never taken for what it was",
          "[gluon]") {
  float scale = 2;
  bool doubled = false;
  const auto body = [&](auto F, auto x) {
    x = F.relu(x) * scale;
    return doubled ? x + x : x;
  };
  Lambda net(body);
  const NDArray x = numbers({2, 3});
  net.hybridize({.verify = 4});
  const auto first = values(net(x));
  scale = 3;
  const auto message = message_of([&] { net(x); });
  CHECK_THAT(message, Contains("[verify] lambda was traced and computes something else now: ") &&
                          Contains("scalar was 2.0, is 3.0") && Contains("make it a Parameter or an input"));
  for (int i = 0; i < 5; ++i) CHECK_THROWS_AS(net(x), VerifyError);  // none of them was verified
  CHECK_THROWS_AS(autograd::record([&] { return net(x); }, false), VerifyError);
  scale = 2;
  doubled = true;
  CHECK_THAT(message_of([&] { net(x); }), Contains("is new"));
  doubled = false;
  CHECK(values(net(x)) == first);
  scale = 3;
  net.hybridize({.verify = 1});  // traced anew
  const auto tripled = values(net(x));
  for (size_t i = 0; i < first.size(); ++i) CHECK(tripled[i] == Approx(first[i] * 1.5));
}

TEST_CASE("users row 27: a number in the loss of a training step that has changed is told", "[gluon]") {
  float weight = 1;
  Mlp net = ready(Mlp());
  SoftmaxCrossEntropyLoss loss_fn;
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  const auto loss = [&](const Symbol& y, const Symbol& label) { return loss_fn(y, label) * weight; };
  gluon::TrainingStep step(net, loss, trainer, {.verify = 3});
  const NDArray data = numbers({4, 5}), label = nd.zeros({4});
  step(data, label).wait_to_read();
  weight = 0.5;
  const auto before = values(net.collect_params()[0].data());
  CHECK_THAT(message_of([&] { step(data, label); }),
             Contains("[verify] training step was traced") && Contains("scalar was 1.0, is 0.5"));
  CHECK(values(net.collect_params()[0].data()) == before);
  weight = 1;
  step(data, label).wait_to_read();
  CHECK(values(net.collect_params()[0].data()) != before);
}

TEST_CASE("verify: traced again for the calls that are verified and for no others", "[gluon]") {
  Mlp net = ready(Mlp());
  net.hybridize({.verify = 2});
  for (int i = 0; i < 5; ++i) net(numbers({2, 5}, uint32_t(i + 1)));
  CHECK(*net.symbols == 1 + 2);
  for (int i = 0; i < 5; ++i) net(numbers({3, 5}, uint32_t(i + 1)));  // a plan of its own
  CHECK(*net.symbols == 1 + 2 + 2);
  CHECK(*net.arrays == 0);
  CHECK_THROWS_WITH(net.hybridize({.verify = -2}), Contains("[hybridize] verify is a number of calls, got -2"));
}

TEST_CASE("verify: several threads, two shapes, one net", "[gluon]") {
  ConvNet net = ready(ConvNet());
  net(numbers({1, 3, 10, 10}));  // completes parameters
  std::vector<std::vector<double>> want;
  for (uint32_t t = 0; t < 4; ++t) want.push_back(values(net(numbers({1 + t % 2, 3, 10, 10}, t + 1))));
  net.hybridize({.exact = true, .verify = 20});
  std::vector<std::thread> callers;
  std::vector<int> same(4, 0);
  for (uint32_t t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) same[t] += values(net(numbers({1 + t % 2, 3, 10, 10}, t + 1))) == want[t];
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(same == std::vector<int>(4, 15));
}

}  // namespace verify_test

// set_checks: NaNs and indices out of range are found where they arise, in calls and in plans.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/kaon.h"

namespace checks_test {

using namespace kaon;
using namespace kaon::gluon;
using Catch::Matchers::Contains;

namespace {

struct WithChecks {
  Checks before = checks();
  explicit WithChecks(const Checks& wanted) { set_checks(wanted); }
  ~WithChecks() { set_checks(before); }
};

// The second of three operators makes a NaN of negative numbers.
struct Scorer : HybridBlock<Scorer> {
  auto hybrid_forward(auto F, const auto& x) { return F.sqrt(x * 2 - 1) + 3; }
};

struct Loss : HybridBlock<Loss> {
  loss::SoftmaxCrossEntropyLoss loss = child("loss", loss::SoftmaxCrossEntropyLoss());
  auto hybrid_forward(auto, const auto& scores, const auto& labels) { return loss(scores, labels); }
};

struct Words : HybridBlock<Words> {
  nn::Embedding words = child("words", nn::Embedding(5, 3));
  auto hybrid_forward(auto, const auto& x) { return words(x); }
};

}  // namespace

TEST_CASE("checks: the first operator with a NaN fails, and says which") {
  const WithChecks on({.nan = true});
  const NDArray x = nd.array({4, 0.25f});
  SECTION("a call") {
    const NDArray y = nd.exp(nd.log(x - 1));
    CHECK_THROWS_AS(y.wait_to_read(), ValueError);
    CHECK_THROWS_WITH(y.wait_to_read(), Contains("[log] the result has a NaN at (1,), and no input has one"));
  }
  SECTION("a call whose input has one already") {
    const NDArray y = nd.array({NAN, 1.0f}) + 1;
    CHECK(std::isnan(y.asvector<float>()[0]));
  }
  SECTION("a net") {
    Scorer net;
    CHECK_THROWS_WITH(net(x).asvector<float>(), Contains("[sqrt]") && Contains("NaN at (1,)"));
    net.hybridize();
    CHECK_THROWS_AS(net(x).wait_to_read(), ValueError);
    CHECK_THROWS_WITH(net(x).wait_to_read(), Contains("[sqrt]") && Contains("NaN at (1,)"));
    CHECK(net(x + 1).asvector<float>()[0] == 6);
  }
  SECTION("infinities are none") { CHECK(std::isinf((1 / nd.zeros({2})).asvector<float>()[0])); }
  nd.waitall();
}

TEST_CASE("checks: infinities") {
  const WithChecks on({.infinity = true});
  const NDArray y = 1 / nd.array({1, 0, 2});
  CHECK_THROWS_WITH(y.wait_to_read(), Contains("an infinity or a NaN at (1,)"));
  NDArray weight = nd.array({1, 1e38f});
  nd.sgd_update(weight, nd.array({1, -1e38f}), {.lr = 1e10});
  CHECK_THROWS_WITH(weight.wait_to_read(), Contains("[sgd_update] updated input 0"));
}

TEST_CASE("checks: an index or a label that would be clipped") {
  const NDArray scores = nd.ones({2, 3}), labels = nd.array({2, 3}), x = nd.array({0, -1});
  const auto expect_error = [](const NDArray& y, const char* text) {
    CHECK_THROWS_AS(y.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(y.wait_to_read(), Contains(text));
  };
  CHECK_NOTHROW(nd.take(scores, labels).wait_to_read());
  const WithChecks on({.indices = true});
  expect_error(nd.take(scores, labels), "[take] indices at (0,): expected 0 to 1, got 2");
  CHECK_NOTHROW(nd.take(scores, labels, {.mode = IndexMode::wrap}).wait_to_read());
  expect_error(nd.pick(scores, labels), "[pick] index at (1,): expected 0 to 2, got 3");
  expect_error(nd.one_hot(labels, 3), "[one_hot] indices at (1,): expected 0 to 2, got 3");
  expect_error(nd.batch_take(scores, labels), "[batch_take] indices at (1,): expected 0 to 2, got 3");
  expect_error(nd.SoftmaxOutput(scores, x), "[SoftmaxOutput] label at (1,): expected 0 to 2, got -1");
  CHECK_NOTHROW(nd.SoftmaxOutput(scores, x, {.use_ignore = true}).wait_to_read());
  expect_error(nd.softmax_cross_entropy(scores, x), "[softmax_cross_entropy] label at (1,): expected 0 to 2, got -1");
  for (bool hybridized : {false, true}) {
    Loss loss;
    Words words;
    words.initialize();
    if (hybridized) loss.hybridize(), words.hybridize();
    expect_error(loss(scores, labels), "expected 0 to 2, got 3");
    CHECK_NOTHROW(loss(scores, labels - 1).wait_to_read());
    expect_error(words(x), "[Embedding] data at (1,): expected 0 to 4, got -1");
  }
  nd.waitall();
}

TEST_CASE("checks: a plan made without them is not used with them") {
  Scorer net;
  net.hybridize();
  const NDArray x = nd.array({-1});
  CHECK(std::isnan(net(x).asscalar<float>()));
  {
    const WithChecks on({.nan = true});
    CHECK_THROWS_AS(net(x).asscalar<float>(), ValueError);
  }
  CHECK(std::isnan(net(x).asscalar<float>()));
}

TEST_CASE("checks: training under all of them gives what it gives without") {
  const auto train = [] {
    random::seed(1);
    nn::HybridSequential net(nn::Dense(8, {.activation = "relu"}), nn::BatchNorm(), nn::Dense(3));
    net.initialize(init::Xavier());
    net.hybridize();
    Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    loss::SoftmaxCrossEntropyLoss loss;
    std::vector<float> values;
    for (int i = 0; i < 5; ++i) {
      const NDArray x = nd.random_normal({6, 4}), y = nd.array({0, 1, 2, 0, 1, 2});
      const NDArray value = autograd::record([&] { return loss(net(x), y); });
      value.backward();
      trainer.step(6);
      values = value.asvector<float>();
    }
    return values;
  };
  const std::vector<float> without = train();
  const WithChecks on({.nan = true, .infinity = true, .indices = true});
  const std::vector<float> with = train();
  REQUIRE(with.size() == without.size());
  for (size_t i = 0; i < with.size(); ++i) CHECK(with[i] == Approx(without[i]).epsilon(1e-5));
}

TEST_CASE("checks: lengths beyond the steps") {
  const NDArray x = nd.ones({4, 2, 3});  // steps, batch
  rnn::LSTM lstm(5, {.use_sequence_length = true});
  lstm.initialize();
  const auto run = [&](const NDArray& lengths) {
    const auto [y, states] = lstm(x, std::vector<NDArray>(), lengths);
    return std::vector{nd.SequenceMask(x, lengths), y,
                       nd.scaled_dot_product_attention(nd.ones({2, 1, 4, 3}), nd.ones({2, 1, 4, 3}),
                                                       nd.ones({2, 1, 4, 3}), lengths, {.use_valid_length = true})};
  };
  for (const NDArray& y : run(nd.array({9, -1}))) y.wait_to_read();  // the nearest length
  const WithChecks on({.indices = true});
  for (const NDArray& y : run(nd.array({4, 0}))) y.wait_to_read();
  for (double wrong : {5.0, -1.0, double(NAN)}) {
    for (const NDArray& y : run(nd.array({4.0, wrong}))) {
      CHECK_THROWS_WITH(y.wait_to_read(), Contains("_length at (1,): expected 0 to 4, got"));
    }
  }
  nd.waitall();
}

}  // namespace checks_test

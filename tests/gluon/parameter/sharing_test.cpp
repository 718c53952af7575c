// Parameters that blocks share, and constants.
#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace sharing_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

constexpr int words = 7, units = 4;

// Predicts words by the weights that embed them.
struct Tied : gluon::HybridBlock<Tied> {
  nn::Embedding embed = child("embed", nn::Embedding(words, units));
  nn::Dense head = child("head", nn::Dense(words, {.flatten = false}));
  Tied() { head.share_parameters(embed); }
  auto hybrid_forward(auto, auto x) { return head(embed(x)); }
};

// The same with the weight used by hand.
struct ByHand : gluon::HybridBlock<ByHand> {
  nn::Embedding embed = child("embed", nn::Embedding(words, units));
  gluon::Parameter bias = param("bias", {words}, {.init = init::Zero()});
  auto hybrid_forward(auto F, auto x) {
    return F.FullyConnected(embed(x), F(embed.weight), F(bias), {.num_hidden = words, .flatten = false});
  }
};

// Its member has been assigned to.
struct Assigned : gluon::HybridBlock<Assigned> {
  nn::Embedding embed = child("embed", nn::Embedding(words, units));
  nn::Dense head = child("head", nn::Dense(words, {.flatten = false}));
  Assigned() { head.weight = embed.weight; }
  auto hybrid_forward(auto, auto x) { return head(embed(x)); }
};

struct Scaled : gluon::HybridBlock<Scaled> {
  gluon::Parameter scale = constant("scale", nd.array({1, 2, 3}));
  nn::Dense dense = child("dense", nn::Dense(3));
  auto hybrid_forward(auto F, auto x) { return dense(x) * F(scale).reshape({1, 3}); }
};

NDArray tokens() { return nd.array({0, 3, 6, 1, 1, 2}, {2, 3}); }
NDArray next() { return nd.array({3, 6, 0, 1, 2, 5}, {2, 3}); }

std::vector<double> trained(auto net, bool hybrid, bool in_step) {
  net.initialize();
  net.embed.weight.set_data(nd.arange(words * units).reshape({words, units}) / 10);
  net(tokens());
  if (hybrid) net.hybridize({.exact = true});
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.5, .momentum = 0.9}));
  gluon::TrainingStep step(net, loss, trainer, {.static_alloc = true, .exact = true});
  for (int i = 0; i < 3; ++i) {
    if (in_step) {
      step(tokens(), next());
    } else {
      autograd::record([&] { return loss(net(tokens()), next()); }).backward();
      trainer.step(2);
    }
  }
  return values(net.embed.weight.data());
}

}  // namespace

TEST_CASE("sharing: tied weights are one parameter, by one name, in files and gradients", "[gluon]") {
  Tied net;
  CHECK(net.head.weight == net.embed.weight);
  CHECK(net.head.weight.shape() == Shape(words, units));
  CHECK(net.head.weight.name() == "embed_weight");
  CHECK(net.collect_params().size() == 2);  // and the bias
  net.initialize();
  CHECK(net(tokens()).shape() == Shape(2, 3, words));
  const ScratchFolder folder;
  net.save_parameters(folder / "all.params");
  CHECK(nd_file::load(folder / "all.params").size() == 3);
  net.save_parameters(folder / "once.params", true);
  CHECK(nd_file::load(folder / "once.params").size() == 2);
  Tied same;
  same.load_parameters(folder / "all.params");
  CHECK(values(same(tokens())) == values(net(tokens())));
  CHECK(same.head.weight == same.embed.weight);

  const std::vector<double> expected = trained(ByHand(), false, false);
  for (bool hybrid : {false, true}) {
    for (bool in_step : {false, true}) CHECK(trained(Tied(), hybrid, in_step) == expected);
  }
}

TEST_CASE("sharing: whole nets, and blocks that have run", "[gluon]") {
  const auto make = [] {
    return nn::HybridSequential(nn::Dense(4, {.activation = "tanh"}), nn::BatchNorm(), nn::Dense(2));
  };
  nn::HybridSequential one = make(), other = make();
  for (auto* net : {&one, &other}) {
    net->initialize();
    net->hybridize();
    (*net)(nd.ones({3, 5}));
  }
  const NDArray x = nd.random_normal({3, 5});
  other.share_parameters(one);
  CHECK(values(other(x)) == values(one(x)));
  one.collect_params().get("dense0_weight").set_data(nd.ones({4, 5}));
  CHECK(values(other(x)) == values(one(x)));
  CHECK(other.collect_params().get("dense0_weight") == one.collect_params().get("dense0_weight"));
  other.initialize(init::One(), Device(), true);  // of both
  CHECK(values(one(x)) == values(other(x)));
}

TEST_CASE("sharing: what cannot be shared is refused, and nothing is changed", "[gluon]") {
  nn::Dense dense(3, {.in_units = 2}), fits(3), other_shape(4, {.in_units = 2}),
      other_dtype(3, {.dtype = DType::float64});
  CHECK_THROWS_WITH(other_shape.share_parameters(dense),
                    Contains("of shape (4, 2) cannot become") && Contains("of shape (3, 2)"));
  CHECK_THROWS_AS(other_shape.share_parameters(dense), ShapeError);
  CHECK_THROWS_AS(other_dtype.share_parameters(dense), TypeError);
  CHECK_THROWS_AS(nn::Activation("relu").share_parameters(dense), ValueError);
  CHECK_FALSE(other_shape.bias == dense.bias);
  fits.share_parameters(dense);
  fits.share_parameters(dense);  // again: nothing to do
  CHECK(fits.weight.shape() == Shape(3, 2));
  dense.share_parameters(fits);  // they are one already
  dense.initialize();
  CHECK(values(fits(nd.ones({1, 2}))) == values(dense(nd.ones({1, 2}))));

  for (bool hybrid : {false, true}) {
    Assigned net;
    net.initialize();
    net.hybridize(hybrid);
    CHECK_THROWS_WITH(net(tokens()), Contains("head uses embed_weight, which is not one of its parameters") &&
                                         Contains("share_parameters()"));
  }
}

TEST_CASE("constants: values that initialize() gives, without a gradient", "[gluon]") {
  Scaled net;
  CHECK_FALSE(net.scale.is_initialized());
  net.initialize(init::Zero());
  net.collect_params().set_grad_req(GradReq::write);
  CHECK(net.scale.grad_req() == GradReq::null);
  CHECK(values(net.scale.data()) == std::vector<double>{1, 2, 3});
  net.initialize(init::One(), Device(), true);
  CHECK(values(net.scale.data()) == std::vector<double>{1, 2, 3});
  check_hybrid(net, {2, 5});
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.5}));
  autograd::record([&] { return net(nd.ones({2, 5})); }).backward();
  trainer.step(1);
  CHECK(values(net.scale.data()) == std::vector<double>{1, 2, 3});
  const ScratchFolder folder;
  net.save_parameters(folder / "net.params");
  CHECK(nd_file::load(folder / "net.params").size() == 3);
  net.cast(DType::float64);
  CHECK(net.scale.data().dtype() == DType::float64);
  net.initialize(init::One(), Device(), true);
  CHECK(net.scale.data().dtype() == DType::float64);
}

}  // namespace sharing_test

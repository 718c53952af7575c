// Hooks around the calls of blocks, and apply().
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/support.h"

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;
using Strings = std::vector<std::string>;

namespace {

nn::HybridSequential made() {
  nn::HybridSequential net(nn::Dense(3, {.activation = "relu"}), nn::Dense(2));
  net.initialize(init::Uniform(0.5));
  return net;
}

// A block of two arguments, one a list, and two results.
struct Pair : gluon::HybridBlock<Pair> {
  auto hybrid_forward(auto F, auto x, const auto& list) { return std::pair(x + list[0], F.relu(list[1])); }
};

struct Plain : gluon::Block {
  NDArray operator()(const NDArray& x) const { return x; }
};

}  // namespace

TEST_CASE("hooks: called around the calls of a block, with its arguments and results, in both modes", "[gluon]") {
  nn::HybridSequential net = made();
  const NDArray x = nd.ones({4, 5});
  const std::vector<double> expected = values(net(x));
  Strings calls;
  auto before = net.register_forward_pre_hook([&](const gluon::Block& block, std::span<const NDArray> in) {
    calls.push_back("before " + block.class_name() + in[0].shape().str());
  });
  auto after = net.register_forward_hook(
      [&](const gluon::Block& block, std::span<const NDArray> in, std::span<const NDArray> out) {
        calls.push_back("after " + block.class_name() + in[0].shape().str() + out[0].shape().str());
        CHECK(out.size() == 1);
        require_close(out[0], expected);
      });
  const Strings both{"before hybridsequential(4, 5)", "after hybridsequential(4, 5)(4, 2)"};
  for (bool active : {false, true}) {
    net.hybridize(active);
    calls.clear();
    require_close(net(x), expected);
    CHECK(calls == both);
  }
  before.detach();
  before.detach();
  calls.clear();
  net(x);
  CHECK(calls == Strings{both[1]});
  after.detach();
  calls.clear();
  net(x);
  CHECK(calls.empty());
}

TEST_CASE("hooks: of children, lists spread out, containers that are not traced", "[gluon]") {
  nn::HybridSequential net = made();
  const NDArray x = nd.ones({4, 5});
  std::vector<NDArray> features;
  net.register_forward_hook([](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) {});
  gluon::Block first = net[0];
  auto handle = first.register_forward_hook(
      [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray> out) { features.push_back(out[0]); });
  const NDArray y = net(x);
  REQUIRE(features.size() == 1);
  require_close(net[1](features[0]), values(y));

  Pair pair;
  std::vector<size_t> counts;
  pair.register_forward_hook([&](const gluon::Block&, std::span<const NDArray> in, std::span<const NDArray> out) {
    counts = {in.size(), out.size()};
  });
  pair(x, std::vector{x, x});
  CHECK(counts == std::vector<size_t>{3, 2});

  int calls = 0;
  nn::Sequential plain((nn::Dense(2)), nn::Lambda([](const NDArray& a) { return a; }));
  plain.initialize();
  plain.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { ++calls; });
  nn::Concurrent side;
  side.add(plain);
  side.register_forward_hook([&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { ++calls; });
  side(x);
  CHECK(calls == 2);
}

TEST_CASE("hooks: what they do is recorded, and what they throw leaves the call", "[gluon]") {
  nn::HybridSequential net = made();
  NDArray x = nd.ones({4, 5}), penalty;
  x.attach_grad();
  auto handle = net.register_forward_hook([&](const gluon::Block&, std::span<const NDArray>,
                                              std::span<const NDArray> out) { penalty = nd.square(out[0]).sum(); });
  NDArray loss = autograd::record([&] { return net(x).sum() + penalty; });
  loss.backward();
  const std::vector<double> got = values(x.grad());
  handle.detach();
  loss = autograd::record([&] {
    const NDArray y = net(x);
    return y.sum() + nd.square(y).sum();
  });
  loss.backward();
  require_close(x.grad(), got);
  net.register_forward_pre_hook([](const gluon::Block&, std::span<const NDArray>) { throw ValueError("not this"); });
  CHECK_THROWS_WITH(net(x), Contains("not this") && Contains("hooks_test.cpp"));
}

TEST_CASE("hooks: refused where they would not be called", "[gluon]") {
  nn::HybridSequential net = made();
  const NDArray x = nd.ones({4, 5});
  net.hybridize();
  net(x);
  gluon::Block first = net[0];
  auto handle = first.register_forward_pre_hook([](const gluon::Block&, std::span<const NDArray>) {});
  CHECK_THROWS_AS(net(x), StateError);  // the plan from before is not used either
  CHECK_THROWS_WITH(net(x), Contains("dense0") && Contains("hybridize(false)"));
  net.hybridize(false);
  net(x);
  handle.detach();
  net.hybridize();
  net(x);

  nn::Dense deferred(2);  // completing shapes is no call
  nn::HybridSequential outer(deferred);
  deferred.register_forward_pre_hook([](const gluon::Block&, std::span<const NDArray>) {});
  outer.initialize();
  outer(x);
  gluon::Trainer trainer(outer.collect_params(), optimizer::SGD());
  gluon::TrainingStep step(outer, gluon::loss::L2Loss(), trainer);
  CHECK_THROWS_WITH(step(x, nd.zeros({4, 2})), Contains("has hooks"));
  CHECK_THROWS_WITH(
      Plain().register_forward_hook([](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) {}),
      Contains("operator()"));
  CHECK_THROWS_AS(net.register_forward_hook(nullptr), ValueError);
}

TEST_CASE("apply: children first", "[gluon]") {
  Strings names;
  made().apply([&](gluon::Block& b) { names.push_back(b.class_name()); });
  CHECK(names == Strings{"relu", "dense", "dense", "hybridsequential"});
}

// Hooks around the calls of blocks, and apply().
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/support.h"

namespace hooks_test {

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

namespace {

// log(dense(x)), in two ways to make it.
struct Log : gluon::HybridBlock<Log> {
  nn::Dense dense = child("dense", nn::Dense(2, {.weight_initializer = init::One()}));
  auto hybrid_forward(auto F, auto x) { return F.exp(F.log(dense(x))); }
};

}  // namespace

TEST_CASE("hooks: op hooks see each operator, hybridized or not, recorded or not", "[gluon]") {
  nn::HybridSequential net(Log(), nn::Dense(1));
  net.initialize(init::One());
  const NDArray x = nd.ones({1, 3});
  const std::vector<double> expected = values(net(x));
  for (bool hybrid : {false, true}) {
    net.hybridize(hybrid);
    net(x);
    Strings names, ops, inside;
    gluon::HookHandle all = net.register_op_hook(
        [&](std::string_view array, std::string_view op, const NDArray& value) {
          names.emplace_back(array);
          ops.emplace_back(op);
          CHECK(value.size() > 0);
          nd.sin(value);  // not seen
        },
        true);
    for (bool recorded : {false, true}) {
      names.clear(), ops.clear();
      const NDArray y = autograd::record([&] { return net(x); }, recorded);
      require_close(y, expected);
      CHECK(names == Strings{"hybridblock0_dense_FullyConnected_input0", "hybridblock0_dense_FullyConnected_input1",
                             "hybridblock0_dense_FullyConnected_input2", "hybridblock0_dense_FullyConnected_output",
                             "hybridblock0_log_input0", "hybridblock0_log_output", "hybridblock0_exp_input0",
                             "hybridblock0_exp_output", "dense0_FullyConnected_input0", "dense0_FullyConnected_input1",
                             "dense0_FullyConnected_input2", "dense0_FullyConnected_output"});
      CHECK(ops[0] == "FullyConnected");
      y.backward();
    }
    CHECK(nd.norm(net.collect_params().get("dense0_weight").grad()).asscalar<float>() > 0);
    all.detach();
    names.clear();
    net(x);
    CHECK(names.empty());
    nn::AnyBlock first = net[0];
    gluon::HookHandle some =
        first.register_op_hook([&](std::string_view, std::string_view op, const NDArray&) { inside.emplace_back(op); });
    if (hybrid) {
      CHECK_THROWS_WITH(net(x), Contains("hybridblock0 (hybridblock) has hooks, which a plan does not call"));
    } else {
      net(x);
      CHECK(inside == Strings{"FullyConnected", "log", "exp"});
    }
    some.detach();
    require_close(net(x), expected);
  }
  gluon::HookHandle once;
  once = net.register_op_hook([&](std::string_view, std::string_view, const NDArray&) { once.detach(); });
  net(x);
  net.register_op_hook([](std::string_view, std::string_view, const NDArray&) { throw Error("enough"); });
  CHECK_THROWS_WITH(net(x), Contains("enough"));
  CHECK_THROWS_WITH(net(x), Contains("enough"));
  CHECK_THROWS_AS(net.register_op_hook(nullptr), ValueError);
  CHECK_THROWS_AS(Plain().register_op_hook([](std::string_view, std::string_view, const NDArray&) {}), StateError);
}

TEST_CASE("hooks: detect_anomaly names the first operator whose result is not finite, in both modes", "[gluon]") {
  Log net;
  net.initialize();
  for (bool hybrid : {false, true}) {
    net.hybridize(hybrid);
    gluon::HookHandle both = net.detect_anomaly();
    CHECK(net(nd.ones({2, 3})).shape() == Shape(2, 2));
    net(nd.zeros({0, 3}));
    CHECK_THROWS_WITH(
        net(nd.array({{1, 1, 1}, {-1, 0, 0}})),
        Contains("[detect_anomaly] log gives nan at element (1, 0) of") && Contains("log_output, shape (2, 2)"));
    CHECK_THROWS_WITH(net(nd.array({{1, 1, 1}, {0, 0, 0}})), Contains("log gives -inf at element (1, 0)"));
    both.detach();
    gluon::HookHandle nan = net.detect_anomaly(false);
    CHECK(values(net(nd.zeros({1, 3}))) == std::vector<double>{0, 0});
    CHECK_THROWS_WITH(net(nd.array({{-1, 0, 0}})), Contains("log gives nan"));
    nan.detach();
  }
  net.detect_anomaly();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD());
  gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
  CHECK_THROWS_WITH(step(nd.ones({2, 3}), nd.ones({2, 2})), Contains("has hooks"));
}

}  // namespace hooks_test

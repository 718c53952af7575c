#include "kaon/gluon/nn/nn.h"

#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace sequential_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

std::vector<std::string> names(const gluon::ParameterDict& parameters) {
  std::vector<std::string> list;
  for (const auto& p : parameters) list.push_back(p.name());
  return list;
}

// A block that is not traced.
struct Doubled : gluon::Block {
  Doubled() : Block("doubled") {}
  nn::Dense dense = child("dense", nn::Dense(2));
  NDArray operator()(const NDArray& x) { return dense(x) * 2; }
};

}  // namespace

TEST_CASE("sequential: children are named by hint and number, files by position", "[gluon]") {
  nn::HybridSequential net;
  net.add(nn::Conv2D(4, {.kernel_size = 3}), nn::Activation("relu"), nn::Dense(8));
  net.add(nn::Dense(3));
  CHECK(net.size() == 4);
  CHECK(net[0].name() == "conv0");
  CHECK(net[-1].name() == "dense1");
  CHECK_THROWS_AS(net[4], IndexError);
  CHECK(names(net.collect_params()) == std::vector<std::string>{"conv0_weight", "conv0_bias", "dense0_weight",
                                                                "dense0_bias", "dense1_weight", "dense1_bias"});
  CHECK(names(net.collect_params(".*weight")) ==
        std::vector<std::string>{"conv0_weight", "dense0_weight", "dense1_weight"});
  net.initialize();
  net(nd.zeros({2, 1, 6, 6}));
  const ScratchFolder folder;
  const auto file = folder / "net.params";
  net.save_parameters(file);
  std::vector<std::string> keys;
  for (auto& [name, array] : nd_file::load(file)) keys.push_back(name);
  CHECK(keys == std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias"});
  nn::HybridSequential same(nn::Conv2D(4, {.kernel_size = 3}), nn::Activation("relu"), nn::Dense(8), nn::Dense(3));
  same.load_parameters(file);
  NDArray x = nd.random_normal({2, 1, 6, 6});
  CHECK(values(same(x)) == values(net(x)));
}

TEST_CASE("sequential: hybridized equals imperative, also nested", "[gluon]") {
  nn::HybridSequential body(nn::Dense(6, {.activation = "tanh"}), nn::LayerNorm());
  check_hybrid(nn::HybridSequential(body, nn::Dense(4), nn::GELU()), {5, 3});
}

TEST_CASE("sequential: an empty one gives its input back", "[gluon]") {
  CHECK(values(nn::HybridSequential()(nd.ones({2}))) == std::vector<double>{1, 1});
  CHECK(values(nn::Sequential()(nd.ones({2}))) == std::vector<double>{1, 1});
}

TEST_CASE("sequential: a copy of the handle is the same net", "[gluon]") {
  nn::HybridSequential net;
  nn::HybridSequential copy = net;
  copy.add(nn::Dense(2));
  CHECK(net.size() == 1);
  CHECK_THROWS_AS(net.add(copy), ValueError);  // it cannot contain itself
  CHECK(net.size() == 1);
  net.initialize();
  CHECK(net(nd.ones({1, 3})).shape() == Shape(1, 2));
}

TEST_CASE("sequential: adding and replacing after a hybridized call", "[gluon]") {
  nn::HybridSequential net(nn::Dense(10, {.flatten = false}));
  net.initialize();
  net.hybridize();
  NDArray x = nd.random_normal({2, 3, 5});
  CHECK(net(x).shape() == Shape(2, 3, 10));
  net.add(nn::Flatten());
  CHECK(net(x).shape() == Shape(2, 30));
  nn::Dense wide(7);
  net.replace(0, wide);
  net.initialize();
  CHECK(net(x).shape() == Shape(2, 7));
  CHECK(wide.weight.name() == "dense0_weight");
}

TEST_CASE("sequential: slices share blocks", "[gluon]") {
  nn::Sequential net(nn::Dense(3), nn::Dense(4), nn::Dense(5));
  net.initialize();
  net(nd.zeros({2, 2}));
  nn::Sequential tail = net.slice(1, 3);
  CHECK(tail.size() == 2);
  CHECK(names(tail.collect_params()) ==
        std::vector<std::string>{"dense1_weight", "dense1_bias", "dense2_weight", "dense2_bias"});
  CHECK(tail(nd.zeros({2, 3})).shape() == Shape(2, 5));
  NDArray h = net[0](nd.ones({2, 2}));
  CHECK(h.shape() == Shape(2, 3));
}

TEST_CASE("sequential: blocks that are not hybrid", "[gluon]") {
  nn::Sequential net(nn::Dense(3), Doubled(), nn::Lambda([](const NDArray& x) { return x + 1; }));
  net.initialize(init::One());
  net.hybridize();  // reaches the Dense layers
  CHECK(values(net(nd.ones({1, 2}))) == std::vector<double>{13, 13});
  CHECK_THROWS_AS(net[1](sym.var("data")), TraceError);
  nn::HybridSequential hybrid;
  CHECK_THROWS_AS(hybrid.add(Doubled()), ValueError);
}

namespace {

// Two in, two out.
struct Crossed : gluon::HybridBlock<Crossed> {
  nn::Dense left = child("left", nn::Dense(3)), right = child("right", nn::Dense(3));
  auto hybrid_forward(auto F, auto x, auto y) { return std::pair(F.tanh(left(x) + y), F.relu(right(y) - x)); }
};
// One in, two out.
struct Fork : gluon::HybridBlock<Fork> {
  auto hybrid_forward(auto F, auto x) { return std::vector{x, F.sin(x)}; }
};
// Any number in, one out.
struct Sum : gluon::HybridBlock<Sum> {
  template <class F, class A>
  A hybrid_forward(F f, const std::vector<A>& xs) {
    return f.add_n(xs);
  }
};
// An array and a list, as of states.
struct Mixed : gluon::HybridBlock<Mixed> {
  template <class F, class A>
  std::pair<A, std::vector<A>> hybrid_forward(F f, const A& x, const std::vector<A>& rest) {
    return {f.add_n(rest) * x, rest};
  }
};
struct Swapped : gluon::Block {
  Swapped() : Block("swapped") {}
  std::pair<NDArray, NDArray> operator()(const NDArray& x, const NDArray& y) { return {y, x}; }
};

}  // namespace

TEST_CASE("sequential: several arrays go from block to block", "[gluon]") {
  const NDArray x = nd.random_normal({2, 3}), y = nd.random_normal({2, 3});
  const auto check = [&](auto net, Crossed& crossed, auto&& expected) {
    net.initialize();
    crossed(x, y);
    for (bool hybrid : {false, true}) {
      INFO((hybrid ? "hybridized" : "imperative"));
      net.hybridize(hybrid, {.exact = true});
      const std::vector<NDArray> results = net(x, y);
      const std::vector<NDArray> wanted = expected();
      REQUIRE(results.size() == wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) CHECK(values(results[i]) == values(wanted[i]));
      CHECK(net(std::vector<NDArray>{x, y}).size() == wanted.size());
    }
  };
  Crossed a, b;
  check(nn::HybridSequential(a), a, [&] {
    auto [l, r] = a(x, y);
    return std::vector{l, r};
  });
  check(nn::HybridSequential(b, Mixed(), Sum()), b, [&] {
    auto [l, r] = b(x, y);
    return std::vector{l * r + r};
  });
  Crossed c;
  check(nn::Sequential(c, Swapped(), nn::HybridSequential(Mixed())), c, [&] {
    auto [l, r] = c(x, y);
    return std::vector{l * r, l};
  });
}

TEST_CASE("sequential: one array in, one out, several between", "[gluon]") {
  const NDArray x = nd.random_normal({2, 3});
  Crossed crossed;
  check_hybrid(nn::HybridSequential(Fork(), crossed, Sum(), nn::Dense(2)), {2, 3});
  nn::Sequential net{Fork(), Swapped(), Sum()};
  CHECK(values(net(x)) == values(x + nd.sin(x)));
  CHECK(net(std::vector<NDArray>{x}).size() == 1);
  int calls = 0;
  net.register_forward_hook([&](const gluon::Block&, std::span<const NDArray> inputs,
                                std::span<const NDArray> outputs) { calls += int(inputs.size() + outputs.size()); });
  net(x);
  net(std::vector<NDArray>{x});
  CHECK(calls == 4);
  const gluon::loss::L2Loss loss;
  nn::HybridSequential trained{Fork(), Crossed(), Sum()};
  trained.initialize();
  gluon::Trainer trainer(trained.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  gluon::TrainingStep step(trained, loss, trainer);
  const NDArray before = step(x, x * 2), after = step(x, x * 2);
  CHECK(after.mean().asscalar<float>() < before.mean().asscalar<float>());
}

TEST_CASE("sequential: another number of arrays than a block takes is refused", "[gluon]") {
  const NDArray x = nd.ones({2, 3});
  for (bool hybrid : {false, true}) {
    nn::HybridSequential forked{Fork()}, crossed{Crossed()}, dense{nn::Dense(3)};
    for (auto* net : {&forked, &crossed, &dense}) {
      net->initialize();
      net->hybridize(hybrid);
    }
    CHECK_THROWS_WITH(forked(x), Contains("[Sequential] gives 2 arrays where one is expected"));
    CHECK_THROWS_WITH(crossed(x), Contains("takes another number of arrays than the 1"));
    CHECK_THROWS_WITH(dense(x, x), Contains("takes another number of arrays than the 2"));
    CHECK_THROWS_AS(forked(x, x), ValueError);
    CHECK(forked(std::vector<NDArray>{x}).size() == 2);
  }
}

}  // namespace sequential_test

#include "kaon/gluon/nn/nn.h"

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

using namespace kaon;
using namespace kaon::test;
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

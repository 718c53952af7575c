// Training on cpu(0) and cpu(1), and a KVStore, beside MXNet 1.9.1: data/devices.json, which make_devices.py has
// written.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "kaon/gluon/kvstore/kvstore.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/util/array_lists.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_devices_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;
namespace nn = kaon::gluon::nn;

namespace {

const std::vector<Device> two{cpu(0), cpu(1)};

std::vector<double> numbers(const json::value& list) {
  std::vector<double> values;
  for (const auto& v : list.as_array()) values.push_back(v.to_number<double>());
  return values;
}

void check_near(const NDArray& got, const json::value& expected, double tolerance) {
  const std::vector<double> a = got.asvector<double>(), b = numbers(expected);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < tolerance);
}

json::value golden() {
  std::ifstream file(golden_dir() / "devices.json");
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
}

void train(const json::value& c, bool hybrid, int threads) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  nn::HybridSequential net(nn::Dense(4, {.activation = "tanh", .in_units = 3}), nn::Dense(2, {.in_units = 4}));
  net.initialize(init::Zero(), two);
  const gluon::ParameterDict parameters = net.collect_params();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_data(nd.array(numbers(c.at("start").at(i)), parameters[i].shape()));
  }
  net.hybridize(hybrid);
  const bool is_sgd = c.at("optimizer").as_string() == "sgd", apart = c.at("apart").as_bool();
  const optimizer::Optimizer rule = is_sgd
                                        ? optimizer::Optimizer(optimizer::SGD({.learning_rate = 0.2, .momentum = 0.9}))
                                        : optimizer::Optimizer(optimizer::Adam({.learning_rate = 0.05}));
  gluon::Trainer trainer(parameters, rule);
  const gluon::loss::L2Loss loss;
  for (const json::value& s : c.at("steps").as_array()) {
    const auto xs = gluon::split_and_load(nd.array(numbers(s.at("x")), {5, 3}), two, {.even_split = false});
    const auto ys = gluon::split_and_load(nd.array(numbers(s.at("y")), {5, 2}), two, {.even_split = false});
    std::vector<NDArray> losses;
    for (size_t i = 0; i < 2; ++i) {
      CHECK(xs[i].shape()[0] == s.at("sizes").at(i).as_int64());
      losses.push_back(autograd::record([&] { return loss(net(xs[i]), ys[i]); }));
    }
    for (NDArray& l : losses) l.backward();
    if (apart) {
      trainer.allreduce_grads();
      for (size_t i = 0; i < parameters.size(); ++i) {
        for (Device d : two) check_near(parameters[i].grad(d), s.at("sums").at(i), 2e-6);
      }
      trainer.update(5);
    } else {
      trainer.step(5);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      for (size_t d = 0; d < 2; ++d) check_near(parameters[i].data(two[d]), s.at("weights").at(i).at(d), 5e-6);
    }
  }
}

}  // namespace

TEST_CASE("golden: training on two devices", "[golden]") {
  const json::value all = golden();
  REQUIRE(all.at("cases").as_array().size() == 3);
  for (const json::value& c : all.at("cases").as_array()) {
    for (bool hybrid : {false, true}) {
      for (int threads : {0, 1, 2}) train(c, hybrid, threads);
    }
  }
}

TEST_CASE("golden: a KVStore with and without an optimizer", "[golden]") {
  const json::value all = golden();
  const json::array& log = all.at("store").as_array();
  size_t at = 0;
  std::vector<NDArray> out, ones;
  for (Device d : two) {
    out.push_back(nd.zeros({2, 3}, {.device = d}));
    ones.push_back(nd.full({2, 3}, 1 + d.index, {.device = d}));
  }
  const auto check = [&] {
    REQUIRE(at < log.size());
    for (size_t i = 0; i < 2; ++i) check_near(out[i], log[at].at(i), 1e-6);
    ++at;
  };
  gluon::KVStore store = gluon::KVStore::create("local");
  store.init("w", nd.full({2, 3}, 10));
  store.pull("w", out), check();
  store.push("w", ones);
  store.pull("w", out), check();
  store.pushpull("w", ones, out), check();
  store = gluon::KVStore::create("device");
  store.init("w", nd.full({2, 3}, 10));
  store.set_optimizer(optimizer::SGD({.learning_rate = 0.5, .momentum = 0.5}));
  for (int i = 0; i < 2; ++i) {
    store.push("w", ones);
    store.pull("w", out), check();
  }
  CHECK(at == log.size());
}

}  // namespace golden_devices_test

#include "kaon/gluon/initializer.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "kaon/ops/functions.h"

using namespace kaon;

namespace {

struct Moments {
  double low, high, mean, deviation;
};
Moments moments(const NDArray& a) {
  auto v = a.asvector<double>();
  double sum = 0, squares = 0;
  for (double x : v) sum += x;
  double mean = sum / double(v.size());
  for (double x : v) squares += (x - mean) * (x - mean);
  return {*std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end()), mean,
          std::sqrt(squares / double(v.size()))};
}

}  // namespace

TEST_CASE("initializer: constants", "[gluon]") {
  CHECK(init::Zero()({2, 2}).asvector<float>() == std::vector<float>{0, 0, 0, 0});
  CHECK(init::One()({3}).asvector<float>() == std::vector<float>{1, 1, 1});
  CHECK(init::Constant(2.5)({1}, DType::float64).dtype() == DType::float64);
}

TEST_CASE("initializer: uniform fills its range", "[gluon]") {
  Moments m = moments(init::Uniform(0.2)({100, 100}));
  CHECK(m.low >= -0.2);
  CHECK(m.high < 0.2);
  CHECK(m.low < -0.19);
  CHECK(m.high > 0.19);
  CHECK(std::abs(m.mean) < 0.01);
}

TEST_CASE("initializer: normal has its deviation", "[gluon]") {
  Moments m = moments(init::Normal(0.3)({100, 100}));
  CHECK(std::abs(m.mean) < 0.02);
  CHECK(m.deviation == Approx(0.3).epsilon(0.05));
  CHECK_THROWS_WITH(init::Normal(-1)({2}), "[Normal] sigma must not be negative, got -1");
  CHECK_THROWS_WITH(init::Uniform(-1)({2}), "[Uniform] scale must not be negative, got -1");
}

TEST_CASE("initializer: Xavier's scale follows from the fans", "[gluon]") {
  // (20, 30, 2, 2): fan-in 120, fan-out 80
  Shape shape{20, 30, 2, 2};
  auto limit = [&](init::FactorType f, double magnitude) {
    return moments(init::Xavier({.factor_type = f, .magnitude = magnitude})(shape)).high;
  };
  CHECK(limit(init::FactorType::avg, 3) == Approx(std::sqrt(3.0 / 100)).epsilon(0.02));
  CHECK(limit(init::FactorType::in, 3) == Approx(std::sqrt(3.0 / 120)).epsilon(0.02));
  CHECK(limit(init::FactorType::out, 2) == Approx(std::sqrt(2.0 / 80)).epsilon(0.02));
  Moments g = moments(init::Xavier({.rnd_type = init::RndType::gaussian})(shape));
  CHECK(g.deviation == Approx(std::sqrt(3.0 / 100)).epsilon(0.05));
  CHECK_THROWS_AS(init::Xavier()({5}), ValueError);
  CHECK_THROWS_WITH(init::Xavier({.magnitude = -3})(shape), "[Xavier] magnitude must not be negative, got -3");
}

TEST_CASE("initializer: a function of the user's", "[gluon]") {
  auto identity = init::Custom([](NDArray& a) { a.assign(nd.eye(a.shape()[0])); });
  CHECK(identity({2, 2}).asvector<float>() == std::vector<float>{1, 0, 0, 1});
  auto wrong = init::Custom([](NDArray& a) { a = nd.zeros({1}); });
  CHECK_THROWS_AS(wrong({2, 2}), ValueError);
  CHECK_THROWS_AS(init::Custom(nullptr)({2, 2}), ValueError);
  CHECK_THROWS_AS(init::Initializer()({2}), StateError);
}

TEST_CASE("initializer: text as in model files", "[gluon]") {
  CHECK(init::Constant(0.5).str() == R"(["constant", {"value": 0.5}])");
  CHECK(init::Zero().str() == "zeros");
  CHECK(init::One().str() == "ones");
  CHECK(init::Uniform().str() == R"(["uniform", {"scale": 0.07}])");
  CHECK(init::Normal().str() == R"(["normal", {"sigma": 0.01}])");
  CHECK(init::Xavier().str() == R"(["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}])");
  CHECK(init::Initializer().str().empty());
  CHECK(init::Custom([](NDArray&) {}).str().empty());
}

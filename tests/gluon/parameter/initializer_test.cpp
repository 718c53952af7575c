#include "kaon/gluon/initializer.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "kaon/ops/functions.h"

namespace initializer_test {

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

TEST_CASE("initializer: orthogonal rows or columns", "[gluon]") {
  for (const Shape& shape : {Shape(4, 9), Shape(9, 4), Shape(5, 5), Shape(3, 2, 2, 2)}) {
    for (const init::RndType type : {init::RndType::uniform, init::RndType::gaussian}) {
      const NDArray w =
          init::Orthogonal({.scale = 2, .rand_type = type})(shape, DType::float64).reshape({shape[0], -1});
      const bool is_tall = w.shape()[0] > w.shape()[1];
      const NDArray product = is_tall ? nd.dot(w.transpose(), w) : nd.dot(w, w.transpose());
      const NDArray wanted = nd.eye(product.shape()[0], {.dtype = DType::float64}) * 4;
      CHECK(nd.max(nd.abs(product - wanted)).asscalar<double>() < 1e-12);
    }
  }
  CHECK(init::Orthogonal()({4, 2}, DType::float16).dtype() == DType::float16);
  CHECK(init::Orthogonal()({0, 2}).size() == 0);
}

TEST_CASE("initializer: MSRAPrelu and the truncated normal by their moments", "[gluon]") {
  const Moments m = moments(init::MSRAPrelu({.factor_type = init::FactorType::in, .slope = 0.5})({200, 50, 2, 2}));
  CHECK(m.deviation == Approx(std::sqrt(2 / 1.25 / 200)).epsilon(0.03));
  CHECK_THROWS_WITH(init::MSRAPrelu()({5}), Catch::Matchers::StartsWith("[MSRAPrelu] a shape of at least 2"));
  const Moments t = moments(init::TruncatedNormal({.mean = 1, .sigma = 0.5})({200, 200}));
  CHECK(t.low >= 0);
  CHECK(t.high <= 2);
  CHECK(t.mean == Approx(1).epsilon(0.02));
  CHECK(t.deviation == Approx(0.5 * 0.8796).epsilon(0.03));  // of a standard normal within 2
  CHECK_THROWS_WITH(init::TruncatedNormal({.low = 1, .high = 1})({2}),
                    "[TruncatedNormal] low must be below high, got 1 and 1");
}

TEST_CASE("initializer: Bilinear and LSTMBias have MXNet's numbers", "[gluon]") {
  // mx.init.Bilinear and LSTMBias of MXNet 1.9.1 on these shapes
  const std::vector<float> four = {0.0625f, 0.1875f, 0.1875f, 0.0625f, 0.1875f, 0.5625f, 0.5625f, 0.1875f,
                                   0.1875f, 0.5625f, 0.5625f, 0.1875f, 0.0625f, 0.1875f, 0.1875f, 0.0625f};
  const std::vector<float> three = {0.0625f, 0.1875f, 0.1875f, 0.1875f, 0.5625f, 0.5625f};
  CHECK(init::Bilinear()({1, 1, 4, 4}).asvector<float>() == four);
  CHECK(init::Bilinear()({1, 1, 2, 3}).asvector<float>() == three);
  CHECK(init::LSTMBias()({8}).asvector<float>() == std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0});
  CHECK(init::LSTMBias(0.5)({10}).asvector<float>() == std::vector<float>{0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(init::Bilinear()({3, 3}), ValueError);
}

TEST_CASE("initializer: a function that holds something", "[gluon]") {
  const double value = 3;
  const auto filled = init::Custom([value](NDArray& a) { a.assign(value); });
  CHECK(filled({2}).asvector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("initializer: texts are read back", "[gluon]") {
  const init::Initializer all[] = {init::Zero(),     init::One(),      init::Constant(0.5), init::Uniform(0.25),
                                   init::Normal(2),  init::Xavier(),   init::MSRAPrelu(),   init::Orthogonal(),
                                   init::Bilinear(), init::LSTMBias(2)};
  for (const init::Initializer& i : all) CHECK(init::Initializer::parse(i.str()).str() == i.str());
  // as dumps() of MXNet 1.9.1
  CHECK(init::MSRAPrelu().str() == R"(["msraprelu", {"factor_type": "avg", "slope": 0.25}])");
  CHECK(init::Orthogonal().str() == R"(["orthogonal", {"scale": 1.414, "rand_type": "uniform"}])");
  CHECK(init::Bilinear().str() == R"(["bilinear", {}])");
  CHECK(init::LSTMBias().str() == R"(["lstmbias", {"forget_bias": 1.0}])");
  CHECK(init::Initializer::parse("Xavier").str() == init::Xavier().str());
  CHECK(init::Initializer::parse(R"(["zero", {}])").str() == "zeros");
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(init::Initializer::parse(R"(["fusedrnn", {"mode": "lstm"}])"), Contains("a parameter of its own"));
  CHECK_THROWS_WITH(init::Initializer::parse("mine"), Contains("there is no such initializer"));
  CHECK_THROWS_WITH(init::Initializer::parse(R"(["uniform", {"scale": "x"}])"), Contains("scale must be a number"));
  CHECK_THROWS_WITH(init::Initializer::parse(R"(["uniform", {"width": 1}])"), Contains("unknown argument width"));
  CHECK_THROWS_WITH(init::Initializer::parse("[1]"), Contains("expected a name"));
}

}  // namespace initializer_test

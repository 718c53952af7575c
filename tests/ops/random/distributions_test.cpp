// Draws against the distribution functions that they must have: Kolmogorov's statistic where numbers are real, the sum
// of squares (chi-square) where they are counts. The numbers follow from the seed, so that nothing here fails by
// chance.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/random_state.h"

namespace distributions_test {

using namespace kaon;

namespace {

constexpr int64_t draws = 1 << 17;
const DType reals[] = {DType::float32, DType::float64};

// sqrt(n) times the largest difference between the two distribution functions: above 1.95 once in a thousand.
double kolmogorov(const NDArray& y, const std::function<double(double)>& distribution) {
  std::vector<double> v = y.asvector<double>();
  std::sort(v.begin(), v.end());
  const double n = double(v.size());
  double most = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double f = distribution(v[i]);
    most = std::max({most, std::abs(f - double(i) / n), std::abs(f - double(i + 1) / n)});
  }
  return most * std::sqrt(n);
}

// How far the sum over classes of (count - expected)^2 / expected is from its mean, in deviations. Counts that are
// expected less than 10 times share a class.
double chi_square(const NDArray& y, const std::function<double(double)>& probability, int64_t most) {
  std::vector<double> counts(size_t(most) + 2);
  for (double v : y.asvector<double>()) {
    REQUIRE(v >= 0);
    REQUIRE(v == std::floor(v));
    ++counts[size_t(std::min(v, double(most) + 1))];
  }
  const double n = double(y.size());
  double sum = 0, classes = 0, rest_expected = n, rest_count = n;
  for (int64_t k = 0; k <= most; ++k) {
    const double expected = n * probability(double(k));
    if (expected < 10) continue;
    sum += std::pow(counts[size_t(k)] - expected, 2) / expected;
    rest_expected -= expected;
    rest_count -= counts[size_t(k)];
    ++classes;
  }
  if (rest_expected > 10) sum += std::pow(rest_count - rest_expected, 2) / rest_expected, ++classes;
  return (sum - (classes - 1)) / std::sqrt(2 * (classes - 1));
}

double normal_function(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The gamma distribution function, by its series.
double gamma_function(double alpha, double x) {
  if (x <= 0) return 0;
  double term = 1 / alpha, sum = term;
  for (double k = 1; k < 2000 && term > sum * 1e-16; ++k) sum += term *= x / (alpha + k);
  return std::min(1.0, sum * std::exp(alpha * std::log(x) - x - std::lgamma(alpha)));
}

double poisson(double mean, double k) { return std::exp(k * std::log(mean) - mean - std::lgamma(k + 1)); }
double negative_binomial(double k, double p, double x) {
  return std::exp(std::lgamma(x + k) - std::lgamma(x + 1) - std::lgamma(k) + k * std::log(p) + x * std::log(1 - p));
}

// An array of `draws` times the same number.
NDArray all(double v, DType t = DType::float64) { return nd.full({draws}, v, {.dtype = t}); }

}  // namespace

TEST_CASE("draws: gamma", "[ops][arithmetic]") {
  random::seed(11);
  for (DType t : reals) {
    for (double alpha : {0.05, 0.3, 1.0, 1.5, 20.0, 3000.0}) {
      if (t == DType::float32 && alpha < 0.1) continue;  // whose smallest numbers it does not hold
      INFO(name_of(t) << " " << alpha);
      const auto f = [=](double x) {
        return alpha > 1000 ? normal_function(3 * std::sqrt(alpha) * (std::cbrt(x / 2 / alpha) - 1 + 1 / (9 * alpha)))
                            : gamma_function(alpha, x / 2);
      };
      CHECK(kolmogorov(nd.random_gamma({draws}, {.alpha = alpha, .beta = 2, .dtype = t}), f) < 1.95);
      CHECK(kolmogorov(nd.sample_gamma(all(alpha), all(2), {.dtype = t}), f) < 1.95);
    }
  }
}

TEST_CASE("draws: exponential, normal and uniform with parameters in arrays", "[ops][arithmetic]") {
  random::seed(12);
  for (DType t : reals) {
    INFO(name_of(t));
    const auto exponential = [](double x) { return 1 - std::exp(-3 * x); };
    const NDArray e = nd.random_exponential({draws}, {.lam = 3, .dtype = t});
    CHECK(kolmogorov(e, exponential) < 1.95);
    CHECK(nd.min(e).asscalar<double>() > 0);
    CHECK(kolmogorov(nd.sample_exponential(all(3), {.dtype = t}), exponential) < 1.95);
    CHECK(kolmogorov(nd.sample_normal(all(1), all(2), {.dtype = t}),
                     [](double x) { return normal_function((x - 1) / 2); }) < 1.95);
    CHECK(kolmogorov(nd.sample_uniform(all(-1), all(3), {.dtype = t}), [](double x) { return (x + 1) / 4; }) < 1.95);
  }
}

TEST_CASE("draws: Poisson, by inversion and by rejection", "[ops][arithmetic]") {
  random::seed(13);
  for (double mean : {0.1, 1.0, 9.99, 10.0, 37.5, 1000.0}) {
    INFO(mean);
    const auto f = [=](double k) { return poisson(mean, k); };
    const int64_t most = int64_t(mean + 8 * std::sqrt(mean) + 10);
    CHECK(std::abs(chi_square(nd.random_poisson({draws}, {.lam = mean}), f, most)) < 3.3);
    CHECK(std::abs(chi_square(nd.sample_poisson(all(mean)), f, most)) < 3.3);
  }
  // where classes would be too many: normal to within 1 / sqrt(mean)
  for (double mean : {1e8, 1e12, 1e17}) {
    INFO(mean);
    CHECK(kolmogorov(nd.random_poisson({draws}, {.lam = mean, .dtype = DType::float64}),
                     [=](double k) { return normal_function((k + 0.5 - mean) / std::sqrt(mean)); }) < 1.95);
  }
}

TEST_CASE("draws: negative binomial", "[ops][arithmetic]") {
  random::seed(14);
  for (double k : {1.0, 3.0, 40.0}) {
    for (double p : {0.1, 0.5, 0.9}) {
      INFO(k << " " << p);
      const auto f = [=](double x) { return negative_binomial(k, p, x); };
      const int64_t most = int64_t(k * (1 - p) / p * 4 + 200);
      CHECK(std::abs(chi_square(nd.random_negative_binomial({draws}, {.k = int(k), .p = p}), f, most)) < 3.3);
      CHECK(std::abs(chi_square(
                nd.sample_negative_binomial(all(k - 0.5), all(p)),
                [=](double x) { return negative_binomial(k - 0.5, p, x); }, most)) < 3.3);
      const double mean = k * (1 - p) / p;
      CHECK(std::abs(chi_square(nd.random_generalized_negative_binomial({draws}, {.mu = mean, .alpha = 1 / k}), f,
                                most)) < 3.3);
    }
  }
}

TEST_CASE("draws: distributions of NumPy's front end", "[ops][arithmetic]") {
  random::seed(15);
  const double loc = 1.5, scale = 2;
  const auto z = [=](double x) { return (x - loc) / scale; };
  CHECK(kolmogorov(nd.random_gumbel({draws}, {.loc = loc, .scale = scale}),
                   [=](double x) { return std::exp(-std::exp(-z(x))); }) < 1.95);
  CHECK(kolmogorov(nd.random_logistic({draws}, {.loc = loc, .scale = scale}),
                   [=](double x) { return 1 / (1 + std::exp(-z(x))); }) < 1.95);
  CHECK(kolmogorov(nd.random_laplace({draws}, {.loc = loc, .scale = scale}),
                   [=](double x) { return z(x) < 0 ? 0.5 * std::exp(z(x)) : 1 - 0.5 * std::exp(-z(x)); }) < 1.95);
  CHECK(kolmogorov(nd.random_rayleigh({draws}, {.scale = 2}), [](double x) { return 1 - std::exp(-x * x / 8); }) <
        1.95);
  CHECK(kolmogorov(nd.random_pareto({draws}, {.a = 3}), [](double x) { return 1 - std::pow(1 + x, -3); }) < 1.95);
  CHECK(kolmogorov(nd.random_weibull({draws}, {.a = 1.5}), [](double x) { return 1 - std::exp(-std::pow(x, 1.5)); }) <
        1.95);
}

TEST_CASE("draws: the extremes of the parameters", "[ops]") {
  const auto is_all = [](const NDArray& y, double value) {
    const std::vector<double> v = y.asvector<double>();
    return std::all_of(v.begin(), v.end(), [=](double x) { return std::isnan(value) ? std::isnan(x) : x == value; });
  };
  CHECK(is_all(nd.random_poisson({100}, {.lam = 0}), 0));
  CHECK(is_all(nd.random_poisson({100}, {.lam = INFINITY}), INFINITY));
  CHECK(is_all(nd.random_poisson({100}, {.lam = 1e6, .dtype = DType::float16}), INFINITY));
  CHECK(is_all(nd.random_negative_binomial({100}, {.k = 0, .p = 0.5}), 0));
  CHECK(is_all(nd.random_negative_binomial({100}, {.k = 3, .p = 1}), 0));
  CHECK(is_all(nd.random_generalized_negative_binomial({100}, {.mu = 0, .alpha = 1}), 0));
  CHECK(std::abs(nd.mean(nd.random_generalized_negative_binomial({10000}, {.mu = 7, .alpha = 0})).asscalar<double>() -
                 7) < 0.1);
  const NDArray tiny = nd.random_gamma({10000}, {.alpha = 1e-3});
  CHECK(nd.min(tiny).asscalar<double>() >= 0);
  CHECK(std::isfinite(nd.max(tiny).asscalar<double>()));
  // parameters that attributes would refuse give NaN, the others their numbers
  const NDArray good = nd.array({1, 1, 1, 2}), bad = nd.array({NAN, -1, 0, 2});
  const auto which = [](const NDArray& y) {
    std::vector<int> nan;
    for (double v : y.asvector<double>()) nan.push_back(std::isnan(v));
    return nan;
  };
  CHECK(which(nd.sample_gamma(good, bad)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.sample_gamma(bad, good)) == std::vector<int>{1, 1, 0, 0});
  for (DType t : {DType::float16, DType::float32, DType::float64}) {  // at 0 as MXNet and NumPy
    const NDArray zero = nd.zeros({1}, {.dtype = t}), one = nd.ones({1}, {.dtype = t});
    CHECK(is_all(nd.sample_gamma(zero, one, {.shape = {50}, .dtype = t}), 0));
    CHECK(is_all(nd.sample_gamma(one, zero, {.shape = {50}, .dtype = t}), 0));
  }
  CHECK(which(nd.sample_exponential(bad)) == std::vector<int>{1, 1, 1, 0});
  CHECK(which(nd.sample_poisson(bad)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.sample_normal(good, bad)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.sample_uniform(good, bad)) == std::vector<int>{1, 1, 1, 0});
  CHECK(which(nd.sample_negative_binomial(bad, good / 2)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.sample_negative_binomial(good, bad)) == std::vector<int>{1, 1, 1, 1});
  CHECK(which(nd.sample_generalized_negative_binomial(good, bad)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.random_gumbel(good, bad)) == std::vector<int>{1, 1, 0, 0});
  CHECK(which(nd.random_weibull(bad)) == std::vector<int>{1, 1, 1, 0});
  CHECK(which(nd.random_uniform(good, bad)) == std::vector<int>{1, 1, 1, 0});
}

TEST_CASE("draws: a parameter's array has each number `shape` times, and no draw is that of its neighbour", "[ops]") {
  random::seed(16);
  for (const Shape& shape : {Shape(), Shape(3), Shape(700), Shape(3, 1000)}) {
    INFO(shape.str());
    const NDArray mean = nd.arange(0, 40) * 1000;
    const NDArray y = nd.sample_normal(mean, nd.ones({40}), {.shape = shape});
    const std::vector<double> v = y.asvector<double>();
    for (size_t i = 0; i < v.size(); ++i) {
      CHECK(std::abs(v[i] - 1000 * std::floor(double(i) * 40 / double(v.size()))) < 6.7);
    }
    const std::vector<double> counts = nd.sample_poisson(mean + 1000, {.shape = shape}).asvector<double>();
    for (size_t i = 0; i < counts.size(); ++i) {
      const double want = 1000 + 1000 * std::floor(double(i) * 40 / double(v.size()));
      CHECK(std::abs(counts[i] - want) < 6.7 * std::sqrt(want));
    }
  }
  const std::vector<double> g = nd.random_gamma({draws}, {.dtype = DType::float64}).asvector<double>();
  double product = 0;
  for (size_t i = 0; i + 1 < g.size(); ++i) product += (g[i] - 1) * (g[i + 1] - 1);
  CHECK(std::abs(product / std::sqrt(double(draws))) < 3.3);
}

TEST_CASE("draws: the gradient of a parameter is that of the draw at its noise", "[ops]") {
  const auto gradients = [](const auto& draw, std::vector<NDArray> p) {
    for (NDArray& x : p) x.attach_grad();
    const NDArray y = autograd::record([&] { return draw(p); });
    y.backward();
    std::vector<double> out = y.asvector<double>();
    for (const NDArray& x : p) {
      for (double v : x.grad().asvector<double>()) out.push_back(v);
    }
    return out;
  };
  using P = std::vector<NDArray>;
  const double a = 1.5, b = 3;
  const auto two = [&](const auto& draw) { return gradients(draw, {nd.array({a}), nd.array({b})}); };
  const auto shifted = [&](const std::vector<double>& v) {  // y, dy / dloc, dy / dscale
    CHECK(v[1] == Approx(1));
    CHECK(v[2] == Approx((v[0] - a) / b).epsilon(1e-4));
  };
  shifted(two([](const P& p) { return nd.random_gumbel(p[0], p[1]); }));
  shifted(two([](const P& p) { return nd.random_logistic(p[0], p[1]); }));
  shifted(two([](const P& p) { return nd.random_laplace(p[0], p[1]); }));
  shifted(two([](const P& p) { return nd.random_normal(p[0], p[1]); }));
  const std::vector<double> u = two([](const P& p) { return nd.random_uniform(p[0], p[1]); });
  CHECK(u[2] == Approx((u[0] - a) / (b - a)).epsilon(1e-4));
  CHECK(u[1] == Approx(1 - u[2]).epsilon(1e-4));
  const auto one = [&](const auto& draw) { return gradients(draw, {nd.array({b})}); };
  const std::vector<double> e = one([](const P& p) { return nd.random_exponential(p[0]); });
  CHECK(e[1] == Approx(e[0] / b).epsilon(1e-4));
  const std::vector<double> r = one([](const P& p) { return nd.random_rayleigh(p[0]); });
  CHECK(r[1] == Approx(r[0] / b).epsilon(1e-4));
  const std::vector<double> pareto = one([](const P& p) { return nd.random_pareto(p[0]); });
  CHECK(pareto[1] == Approx(-(1 + pareto[0]) * std::log1p(pareto[0]) / b).epsilon(1e-4));
  const std::vector<double> weibull = one([](const P& p) { return nd.random_weibull(p[0]); });
  CHECK(weibull[1] == Approx(-weibull[0] * std::log(weibull[0]) / b).epsilon(1e-4));
  CHECK(two([](const P& p) { return nd.random_gamma(p[0], p[1]); })[1] == 0);
}

TEST_CASE("draws: unique Zipfian classes come with their probabilities", "[ops][arithmetic]") {
  random::seed(17);
  constexpr int64_t range = 50;
  const std::vector<NDArray> y = nd.sample_unique_zipfian(range, {1 << 16, 1});
  const double scale = std::log(double(range) + 1);
  CHECK(std::abs(chi_square(
            y[0], [=](double k) { return (std::log(k + 2) - std::log(k + 1)) / scale; }, range - 1)) < 3.3);
  CHECK(nd.sum(y[1]).asscalar<double>() == 1 << 16);
}

TEST_CASE("multinomial: the gradient of the logarithms goes to the classes that were drawn", "[ops]") {
  NDArray p = nd.array({{0.25, 0.75}, {0.5, 0.5}});
  p.attach_grad();
  const std::vector<NDArray> y = autograd::record([&] { return nd.sample_multinomial_prob(p, {.shape = Shape(4)}); });
  y[1].backward(nd.array({{1, 2, 4, 8}, {1, 2, 4, 8}}));
  const std::vector<double> drawn = y[0].asvector<double>(), odds = p.asvector<double>();
  std::vector<double> want(4);
  for (size_t i = 0; i < 8; ++i) {
    const size_t at = i / 4 * 2 + size_t(drawn[i]);
    want[at] += double(1 << (i % 4)) / odds[at];
  }
  for (size_t i = 0; i < 4; ++i) CHECK(p.grad().asvector<double>()[i] == Approx(want[i]));
}

TEST_CASE("random: a state that was kept gives the numbers that came next", "[ops]") {
  random::seed(11);
  nd.random_normal({5});
  const ops::RandomKey state = random::get_state();
  const NDArray first = nd.random_uniform({37}), second = nd.random_gamma({3});
  random::set_state(state);
  CHECK(nd.random_uniform({37}).asvector<double>() == first.asvector<double>());
  CHECK(nd.random_gamma({3}).asvector<double>() == second.asvector<double>());
  random::set_state(state);
  CHECK(random::get_state().seed == 11);
  CHECK(random::get_state().offset == state.offset);
}

}  // namespace distributions_test

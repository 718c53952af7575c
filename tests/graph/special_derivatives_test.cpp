// First and second derivatives at special points, imperative and planned. The numbers are PyTorch's, in float64, but
// where a comment says otherwise.
#include <cmath>
#include <functional>
#include <limits>

#include "kaon/tests/graph/support.h"

namespace special_derivatives_test {

using namespace kaon;
using namespace kaon::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), unknown = std::numeric_limits<double>::quiet_NaN();

using Program = std::function<NDArray(const std::vector<NDArray>&)>;

NDArray number(double v, DType t = DType::float64) {
  NDArray a = nd.full({1}, v, {.dtype = t});
  a.attach_grad();
  return a;
}

bool near(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
}

// {y, dy/da, dy/db, d2y/dada, d2y/dbda, d2y/dadb, d2y/dbdb}; each second one is the derivative of a first one.
std::vector<double> derivatives(const Program& f, double a_value, double b_value, DType t) {
  std::vector<double> out;
  const NDArray a = number(a_value, t), b = number(b_value, t);
  out.push_back(f({a, b}).asscalar<double>());
  for (const NDArray* of : {&a, &b})
    out.push_back(autograd::grad(autograd::record([&] { return f({a, b}); }), *of).asscalar<double>());
  for (const NDArray* first : {&a, &b}) {
    for (const NDArray* second : {&a, &b}) {
      NDArray slope = autograd::record([&] { return autograd::grad(f({a, b}), *first, true); });
      out.push_back(autograd::grad(slope, *second).asscalar<double>());
    }
  }
  return out;
}

template <class F>
void check_derivatives(F f, double a, double b, const std::vector<double>& want) {
  CachedGraph graph(f(sym, sym.var("a"), sym.var("b")), {"a", "b"}, {.exact = true}, "program");
  const Program modes[] = {[&](const std::vector<NDArray>& in) { return f(nd, in[0], in[1]); },
                           [&](const std::vector<NDArray>& in) { return call(graph, in)[0]; }};
  for (DType t : {DType::float64, DType::float32}) {
    for (int planned : {0, 1}) {
      const std::vector<double> got = derivatives(modes[planned], a, b, t);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("at " << a << ", " << b << " in " << name_of(t) << ", planned " << planned << ", number " << i << ": got "
                   << got[i] << ", expected " << want[i]);
        CHECK(near(got[i], want[i], t == DType::float64 ? 1e-12 : 2e-6));
      }
    }
  }
}

template <class F>
std::vector<double> chain(F f, double at, int order, bool planned) {
  CachedGraph graph(f(sym, sym.var("x")), {"x"}, {.exact = true}, "program");
  NDArray x = number(at);
  std::vector<double> out;
  autograd::record([&] {
    NDArray y = planned ? call(graph, {x})[0] : f(nd, x);
    out.push_back(y.asscalar<double>());
    for (int i = 0; i < order; ++i) {
      y = autograd::grad(y, x, true);
      out.push_back(y.asscalar<double>());
    }
    return y;
  });
  return out;
}

}  // namespace

TEST_CASE("derivatives: of x^y by both, also where y is 0") {
  auto power = [](auto F, const auto& a, const auto& b) { return F.power(a, b); };
  // PyTorch has 0 for the derivative by the exponent of the derivative by the base at exponent 0, and 1/a for that in
  // the other order; both are 1/a.
  check_derivatives(power, 2, 0, {1, 0, 0.6931471805599453, 0, 0.5, 0.5, 0.4804530139182014});
  check_derivatives(power, 0.5, 0, {1, 0, -0.6931471805599453, 0, 2, 2, 0.4804530139182014});
  check_derivatives(power, 3, 1, {3, 1, 3.295836866004329, 0, 2.09861228866811, 2.09861228866811, 3.620846882437746});
  check_derivatives(power, 3, 2,
                    {9, 6, 9.887510598012987, 2, 9.591673732008658, 9.591673732008658, 10.862540647313239});
}

TEST_CASE("derivatives: of x^y at 0 are those of the budget, and none is NaN that need not be") {
  for (DType t : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    auto by_base = [&](double a, double b) {
      const NDArray x = number(a, t), y = number(b, t);
      return autograd::grad(autograd::record([&] { return nd.power(x, y); }), x).asscalar<double>();
    };
    INFO(name_of(t));
    CHECK(by_base(0, 0) == 0);
    CHECK(by_base(1e-40, 0) == 0);  // 1/a is infinite in float32
    CHECK(by_base(inf, 0) == 0);
    CHECK(by_base(unknown, 0) == 0);
    CHECK(by_base(-2, 0) == 0);
    CHECK(by_base(0, 1) == 1);
    CHECK(by_base(0, 2) == 0);
    CHECK(by_base(0, 0.5) == inf);
    CHECK(std::isnan(by_base(unknown, 1.5)));
  }
}

TEST_CASE("derivatives: of hypot") {
  auto hypot = [](auto F, const auto& a, const auto& b) { return F.hypot(a, b); };
  check_derivatives(hypot, 3, 4, {5, 0.6, 0.8, 0.128, -0.096, -0.096, 0.072});
  check_derivatives(hypot, 0, 2, {2, 0, 1, 0.5, 0, 0, 0});
  check_derivatives(hypot, -3, 0, {3, -1, 0, 0, 0, 0, 1.0 / 3});
  const NDArray large = number(1e30, DType::float32);  // whose square is infinite
  const NDArray length = autograd::record([&] { return nd.hypot(large, 1e30); });
  CHECK(near(autograd::grad(length, large).asscalar<double>(), std::sqrt(0.5), 1e-6));
}

TEST_CASE("derivatives: of logaddexp, finite also at infinity") {
  auto logaddexp = [](auto F, const auto& a, const auto& b) { return F.logaddexp(a, b); };
  const double s = 0.1049935854035065;
  check_derivatives(logaddexp, 0, 0, {0.6931471805599453, 0.5, 0.5, 0.25, -0.25, -0.25, 0.25});
  check_derivatives(logaddexp, 1, 3, {3.1269280110429727, 0.11920292202211755, 0.8807970779778823, s, -s, -s, s});
  check_derivatives(logaddexp, -700, 700, {700, 0, 1, 0, 0, 0, 0});
  // where one is infinite PyTorch has NaN for second derivatives, where both are the same infinity also for first ones
  check_derivatives(logaddexp, inf, 1, {inf, 1, 0, 0, 0, 0, 0});
  check_derivatives(logaddexp, 1, -inf, {1, 1, 0, 0, 0, 0, 0});
  check_derivatives(logaddexp, inf, -inf, {inf, 1, 0, 0, 0, 0, 0});
  check_derivatives(logaddexp, inf, inf, {inf, 0.5, 0.5, 0, 0, 0, 0});
  check_derivatives(logaddexp, -inf, -inf, {-inf, 0.5, 0.5, 0, 0, 0, 0});
}

TEST_CASE("derivatives: of digamma, gammaln and gamma, up to the third") {
  // by mpmath: PyTorch's trigamma function has 9 digits
  for (bool planned : {false, true}) {
    INFO(planned);
    auto check = [&](auto f, double x, const std::vector<double>& want) {
      const std::vector<double> got = chain(f, x, int(want.size()) - 1, planned);
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("at " << x << ", order " << i << ": got " << got[i] << ", expected " << want[i]);
        CHECK(near(got[i], want[i], 1e-12));
      }
    };
    auto digamma = [](auto F, const auto& x) { return F.digamma(x); };
    auto gammaln = [](auto F, const auto& x) { return F.gammaln(x); };
    auto gamma = [](auto F, const auto& x) { return F.gamma(x); };
    check(digamma, 0.3, {-3.502524222200133, 12.245364546107732, -75.27253658872604, 743.1417646550498});
    check(digamma, 2.5, {0.7031566406452431, 0.49035775610023485, -0.2362040516417274, 0.22390584881725206});
    check(digamma, -1.3, {2.8825405488661673, 14.53687624413708, 68.54941347116213, 768.7206571990426});
    check(gammaln, 2.5, {0.2846828704729192, 0.7031566406452431, 0.49035775610023485, -0.2362040516417274});
    check(gammaln, -1.3, {1.2024757863901114, 2.8825405488661673, 14.53687624413708, 68.54941347116213});
    check(gamma, 0.3, {2.991568987687591, -10.47804284175852, 73.33245167357495});
    check(gamma, 2.5, {1.329340388179137, 0.9347345216260854, 1.3091171559626735});
    auto sum = [](auto F, const auto& x) { return F.digamma(x) + x; };
    check(sum, 2.5, {3.2031566406452431, 1.49035775610023485});
  }
}

// At b = 0 infinite gradients of h / b, which both gradients of a / b contain, meet in b's.
TEST_CASE("special derivatives: the second of a division by zero is infinite or NaN as imperatively") {
  const auto second = [](const std::function<NDArray(const NDArray&, const NDArray&)>& f) {
    NDArray a = nd.array({1, 2, -1, 0}), b = nd.array({0, 2, 1, 0});
    a.attach_grad(), b.attach_grad();
    autograd::record([&] {
      const NDArray y[] = {f(a, b)}, x[] = {a, b};
      const std::vector<NDArray> g = autograd::grad(y, x, {}, true, true);
      return g[0] * 0.3 + g[1] * 0.7;
    }).backward();
    std::vector<float> all = floats(a.grad());
    for (float v : floats(b.grad())) all.push_back(v);
    return all;
  };
  const std::vector<float> expected = second([](const NDArray& a, const NDArray& b) { return a / b; });
  CHECK(std::isinf(expected[0]));
  CHECK(std::isnan(expected[4]));
  for (bool exact : {true, false}) {
    INFO("exact " << exact);
    CachedGraph graph(sym.var("a") / sym.var("b"), {"a", "b"}, {.exact = exact}, "ratio");
    const std::vector<float> got = second([&](const NDArray& a, const NDArray& b) { return call(graph, {a, b})[0]; });
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(i);
      if (std::isnan(expected[i])) CHECK(std::isnan(got[i]));
      else if (exact || std::isinf(expected[i])) CHECK(got[i] == expected[i]);
      else CHECK(got[i] == Approx(expected[i]));
    }
  }
}

TEST_CASE("special derivatives: a number divided by what has no square in its dtype") {
  const auto slope = [](double s, double x_value, DType t) {
    NDArray x = number(x_value, t);
    autograd::record([&] { return s / x; }).backward();
    return x.grad().asvector<double>()[0];
  };
  CHECK(slope(1000, 300, DType::float16) == Approx(-1000.0 / 90000).epsilon(2e-3));
  CHECK(slope(1e-12, 1e-25, DType::float32) == Approx(-1e38).epsilon(1e-5));
  CHECK(slope(1e15, 1e25, DType::float32) == Approx(-1e-35).epsilon(1e-5));
  for (double zero : {0.0, -0.0}) {
    NDArray x = number(zero);
    NDArray g = autograd::record([&] { return autograd::grad(3 / x, x, true); });
    CHECK(g.asvector<double>()[0] == -inf);
    g.backward();
    CHECK(x.grad().asvector<double>()[0] == (std::signbit(zero) ? -inf : inf));
  }
}

}  // namespace special_derivatives_test

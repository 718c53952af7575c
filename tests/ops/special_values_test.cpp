// NaN, infinities, signed zeros and denormals: what the test table (every_operator_test.cpp) does not say. Sums of many
// 16-bit numbers.
#include <hwy/highway.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/support/targets.h"

namespace special_values_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();
constexpr DType reals[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

using Array = NDArray;

Array make(const std::vector<double>& v, DType t, Shape shape = {}) {
  return nd.array(v, shape.empty() ? Shape(int64_t(v.size())) : shape, {.dtype = t});
}

bool same(double got, double want, double rtol) {
  if (std::isnan(want)) return std::isnan(got);
  if (want == 0 || std::isinf(want)) return got == want && std::signbit(got) == std::signbit(want);
  return std::abs(got - want) <= rtol * std::abs(want);
}

// f at special values in every lane of a vector, among ordinary numbers.
void check_unary(const char* name, Array (*op)(const Array&), double (*f)(double), std::vector<double> values) {
  for (DType t : {DType::float32, DType::float64, DType::bfloat16}) {
    const double rtol = t == DType::bfloat16 ? 8e-3 : 1e-5;
    for (double special : values) {
      for (size_t at = 0; at < 19; ++at) {
        std::vector<double> v(19, 0.75);
        v[at] = special;
        const std::vector<double> x = make(v, t).asvector<double>(), y = op(make(v, t)).asvector<double>();
        for (size_t i = 0; i < y.size(); ++i) {
          if (same(y[i], f(x[i]), rtol)) continue;
          INFO(name << "(" << x[i] << ") in " << name_of(t) << " at " << i << ": got " << y[i] << ", expected "
                    << f(x[i]));
          CHECK(false);
          at = 19, i = y.size() - 1;
        }
      }
    }
  }
}

#define UNARY(name, f, ...) \
  check_unary(              \
      #name, +[](const Array& x) { return nd.name(x); }, +[](double x) -> double { return f; }, {__VA_ARGS__})

}  // namespace

TEST_CASE("special values: functions of one array", "[special]") {
  constexpr double tiny = 1e-40, huge = 1e30;  // tiny is denormal in float32
  UNARY(relu, std::isnan(x) ? x : std::max(x, 0.0), nan_, inf, -inf, tiny, huge);
  UNARY(abs, std::abs(x), nan_, inf, -inf, 0.0, -0.0, tiny, -tiny);
  UNARY(negative, -x, nan_, inf, -inf, 0.0, -0.0, tiny);
  UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : std::abs(x), nan_, inf, -inf, 0.0, tiny, -tiny);
  UNARY(square, x * x, nan_, inf, -inf, 0.0, -0.0);
  UNARY(sigmoid, 1 / (1 + std::exp(-x)), nan_, inf, -inf, 0.0, -0.0, tiny, huge, -huge);
  UNARY(tanh, std::tanh(x), nan_, inf, -inf, 0.0, -0.0, huge, -huge);
  UNARY(exp, std::exp(x), nan_, inf, -inf, 0.0, -0.0, tiny, huge, -huge);
  UNARY(log, std::log(x), nan_, inf, -inf, 0.0, -0.0, -1.0, 1.0);
  UNARY(sqrt, std::sqrt(x), nan_, inf, -inf, 0.0, -0.0, -1.0);
  UNARY(rsqrt, 1 / std::sqrt(x), nan_, inf, 0.0, -1.0);
  UNARY(reciprocal, 1 / x, nan_, inf, -inf, 0.0, -0.0);
  UNARY(erf, std::erf(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(log1p, std::log1p(x), nan_, inf, -1.0, -2.0, 0.0, -0.0);
  UNARY(expm1, std::expm1(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(log2, std::log2(x), nan_, inf, 0.0, -1.0);
  UNARY(log10, std::log10(x), nan_, inf, 0.0, -1.0);
  UNARY(sin, std::sin(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(cos, std::cos(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(tan, std::tan(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(arcsin, std::asin(x), nan_, 2.0, -2.0, 0.0, -0.0, 1.0, -1.0);
  UNARY(arccos, std::acos(x), nan_, 2.0, -2.0, -1.0);
  UNARY(arctan, std::atan(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(sinh, std::sinh(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(cosh, std::cosh(x), nan_, inf, -inf, 0.0);
  UNARY(arcsinh, std::asinh(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(arccosh, std::acosh(x), nan_, inf, 0.5);
  UNARY(arctanh, std::atanh(x), nan_, 1.0, -1.0, 2.0, 0.0, -0.0);
  UNARY(floor, std::floor(x), nan_, inf, -inf, 0.0, -0.0, huge, -0.5, 0.5);
  UNARY(ceil, std::ceil(x), nan_, inf, -inf, 0.0, -0.0, huge, -0.5, 0.5);
  UNARY(trunc, std::trunc(x), nan_, inf, -inf, 0.0, -0.0, huge, -0.5);
  UNARY(round, std::round(x), nan_, inf, -inf, 0.0, 2.5, -2.5, huge);
  UNARY(fix, std::trunc(x), nan_, inf, -inf, 0.0, huge);
  UNARY(cbrt, std::cbrt(x), nan_, inf, -inf, 0.0, -0.0);
  UNARY(rcbrt, 1 / std::cbrt(x), nan_, inf, 0.0);
  UNARY(softsign, x / (1 + std::abs(x)), nan_, 0.0, -0.0, huge, -huge);
  UNARY(softrelu, x > 50 ? x : std::log1p(std::exp(x)), nan_, inf, -inf, huge, -80.0, 30.0);
  UNARY(gelu, x / 2 * (1 + std::erf(x / std::sqrt(2.0))), nan_, inf, huge);
  UNARY(gamma, std::tgamma(x), nan_, inf, 5.0);
  UNARY(gammaln, std::lgamma(x), nan_, inf, 1.0);
  // at its poles as MXNet's gradient of gammaln
  UNARY(digamma, x == 0.75 ? -1.0858608797864725 : std::isnan(x) ? x : inf, nan_, inf, -inf, 0.0, -0.0, -1.0, -64.0);
  UNARY(identity, x, nan_, inf, -inf, 0.0, -0.0);
  UNARY(logical_not, x == 0, nan_, inf, 0.0, -0.0);
}

TEST_CASE("special values: NaN wins in maximum, minimum, clip and where it meets a number", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    for (size_t at = 0; at < 19; ++at) {
      std::vector<double> v(19, 1), w(19, 2);
      v[at] = nan_;
      const Array x = make(v, t), y = make(w, t);
      for (const Array& z : {nd.maximum(x, y),
                             nd.maximum(y, x),
                             nd.minimum(x, y),
                             nd.minimum(y, x),
                             nd.maximum(x, 0),
                             nd.minimum(x, 0),
                             nd.maximum(x, 5),
                             nd.minimum(x, 5),
                             nd.clip(x, 0, 1),
                             nd.clip(x, 2, 3),
                             x + y,
                             x * 0,
                             nd.power(x, 2),
                             x / x,
                             nd.add_n(x, y, y),
                             nd.Activation(x, {.act_type = ActivationType::relu}),
                             nd.LeakyReLU(x),
                             nd.LeakyReLU(x, {.act_type = LeakyType::elu}),
                             nd.hypot(x, y),
                             nd.modulo(x, 2)}) {
        const std::vector<double> got = z.asvector<double>();
        for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i == at));
      }
      for (const Array& z : {nd.max(x), nd.min(x), nd.sum(x), nd.mean(x), nd.prod(x), nd.norm(x)})
        CHECK(std::isnan(z.asscalar<double>()));
      CHECK(nd.argmax(x, {.axis = 0}).asscalar<int>() == int(at));
      CHECK(nd.argmin(x, {.axis = 0}).asscalar<int>() == int(at));
      CHECK(nd.nansum(x).asscalar<double>() == 18);
      CHECK((x == x).sum().asscalar<double>() == 18);
      CHECK((x != x).sum().asscalar<double>() == 1);
      CHECK(nd.where(x, y, y * 0).sum().asscalar<double>() == 38);  // NaN is not 0
    }
    CHECK(nd.power(make({nan_, 1, 0, inf, -inf}, t), make({0, nan_, 0, 0, 0}, t)).asvector<double>() ==
          std::vector<double>{1, 1, 1, 1, 1});
    CHECK(nd.maximum(make({inf, -inf}, t), make({1, 1}, t)).asvector<double>() == std::vector<double>{inf, 1});
    CHECK(nd.clip(make({inf, -inf}, t), -1, 1).asvector<double>() == std::vector<double>{1, -1});
  }
}

TEST_CASE("special values: logaddexp of infinities, NaN and numbers far apart", "[special]") {
  struct Point {
    double a, b, sum, slope;  // d sum / da; that by b is the rest of 1
  };
  const Point points[] = {{inf, inf, inf, 0.5},      {-inf, -inf, -inf, 0.5},   {inf, -inf, inf, 1},
                          {inf, 2, inf, 1},          {-inf, 2, 2, 0},           {1, 1, 1 + std::log(2), 0.5},
                          {30000, -60000, 30000, 1}, {-60000, 60000, 60000, 0}, {nan_, 1, nan_, nan_},
                          {inf, nan_, nan_, nan_}};
  for (DType t : reals) {
    INFO(name_of(t));
    const double rtol = t == DType::bfloat16 ? 8e-3 : t == DType::float16 ? 1e-3 : 1e-6;
    test::for_each_target([&] {
      for (const Point& p : points) {
        for (size_t at = 0; at < 19; ++at) {
          std::vector<double> v(19, 0), w(19, 0);
          v[at] = p.a, w[at] = p.b;
          Array a = make(v, t), b = make(w, t);
          a.attach_grad(), b.attach_grad();
          const Array sum = autograd::record([&] { return nd.logaddexp(a, b); });
          const Array reversed = nd.logaddexp(b, a);
          sum.backward();
          INFO(p.a << " and " << p.b << " at " << at);
          CHECK(same(sum.asvector<double>()[at], p.sum, rtol));
          CHECK(same(reversed.asvector<double>()[at], p.sum, rtol));
          CHECK(same(a.grad().asvector<double>()[at], p.slope, rtol));
          CHECK(same(b.grad().asvector<double>()[at], 1 - p.slope, rtol));
          CHECK(same(sum.asvector<double>()[(at + 1) % 19], std::log(2), rtol));
        }
      }
    });
  }
}

TEST_CASE("special values: gradients of NaN", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    const Array x = make({nan_, -1, 2}, t), ones = nd.ones_like(x);
    const std::vector<double> slope = nd._backward_relu(ones, nd.relu(x)).asvector<double>();
    CHECK(std::isnan(slope[0]));
    CHECK(slope[1] == 0);
    CHECK(slope[2] == 1);
    CHECK(nd._backward_clip(ones, x, {.a_min = 0, .a_max = 1}).asvector<double>()[1] == 0);
    CHECK(std::isnan(nd._backward_tanh(ones, nd.tanh(x)).asvector<double>()[0]));
    CHECK(std::isnan(nd._backward_relu(x, ones).asvector<double>()[0]));
  }
}

TEST_CASE("special values: gradients of powers with the exponent or the base 0", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    using Values = std::vector<double>;
    auto slope = [&](Array (*power)(const Array&, const Array&)) {
      Array x = make({0, 2}, t);
      x.attach_grad();
      autograd::record([&] { return power(x, make({0, 0}, t)); }).backward();
      return x.grad().asvector<double>();
    };
    CHECK(slope([](const Array& x, const Array&) { return nd.power(x, 0); }) == Values{0, 0});
    CHECK(slope([](const Array& x, const Array&) { return nd.power(0, x); }) == Values{0, 0});
    CHECK(slope([](const Array& x, const Array& zero) { return nd.power(x, zero); }) == Values{0, 0});
    // 0^x: infinite below 0, then 1, then 0
    for (const bool is_number : {true, false}) {
      Array x = make({-1, 0, 1}, t);
      x.attach_grad();
      autograd::record([&] { return is_number ? nd.power(0, x) : nd.power(make({0, 0, 0}, t), x); }).backward();
      CHECK(x.grad().asvector<double>() == Values{-inf, 0, 0});
    }
  }
}

TEST_CASE("special values: softsign of infinity, in both of its forms", "[special]") {
  for (DType t : reals) {
    const Array x = make({inf, -inf, 1}, t);
    CHECK(nd.softsign(x).asvector<double>() == std::vector<double>{1, -1, 0.5});
    CHECK(nd.Activation(x, {.act_type = ActivationType::softsign}).asvector<double>() ==
          std::vector<double>{1, -1, 0.5});
  }
}

TEST_CASE("special values: integers compared with numbers at and beyond their range", "[special]") {
  const int64_t numbers[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1};
  const Array x = nd.array(numbers, {3}, {.dtype = DType::int64});
  auto values = [](const Array& y) { return y.asvector<int>(); };
  CHECK(values(x < 0x1p63) == std::vector{1, 1, 1});
  CHECK(values(x == 0x1p63) == std::vector{0, 0, 0});
  CHECK(values(x == -0x1p63) == std::vector{0, 1, 0});
  CHECK(values(x > -inf) == std::vector{1, 1, 1});
  CHECK(values(x != nan_) == std::vector{1, 1, 1});
}

// Whatever the processor has: the kernels for older ones run too.
TEST_CASE("special values: reductions and products of 16-bit floats with each set of instructions", "[special]") {
  auto check = [] {
    for (DType t : {DType::float16, DType::bfloat16}) {
      INFO(name_of(t));
      CHECK(std::isnan(nd.max(make({1, nan_, 2}, t)).asscalar<double>()));
      CHECK(nd.max(make({1, inf, 2}, t)).asscalar<double>() == inf);
      CHECK(std::isnan(nd.sum(make({inf, -inf, 2}, t)).asscalar<double>()));
      CHECK(nd.sum(make({0x1p-24, 0x1p-24}, t)).asscalar<double>() == 0x1p-23);
      // 1.75 of the dtype's last bits above 1: rounded to nearest, not cut off
      const double bit = t == DType::float16 ? 0x1p-10 : 0x1p-7;
      const Array x = make({1 + bit, 1 + bit, inf, nan_, 1, 1, 1, 1, 1}, t), y = nd.softmax(make({inf, 1, 2}, t) * 0);
      CHECK((x * 1.75).asvector<double>()[0] == 1.75 + 2 * bit);
      CHECK((x * 1.75).asvector<double>()[2] == inf);
      CHECK(std::isnan((x * 1.75).asvector<double>()[3]));
      CHECK(std::isnan(y.asvector<double>()[1]));
    }
  };
  CHECK(test::for_each_target(check) >= 1);
  const test::OnlyTargets baseline(HWY_STATIC_TARGET);
  check();
}

TEST_CASE("special values: uniform numbers between neighbours of the dtype stay in the interval", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    for (double x : nd.random_uniform({100}, {.low = 1, .high = 1 + 1e-12, .dtype = t}).asvector<double>()) {
      CHECK(x >= 1);
      CHECK(x < 1 + 1e-12);
    }
  }
}

TEST_CASE("special values: softmax", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    for (size_t at = 0; at < 19; ++at) {
      std::vector<double> v(38, 0);
      v[at] = -inf;
      std::vector<double> y = nd.softmax(make(v, t, {2, 19})).asvector<double>();
      CHECK(y[at] == 0);
      CHECK(y[(at + 1) % 19] == Approx(1. / 18).epsilon(1e-2));
      CHECK(nd.log_softmax(make(v, t, {2, 19})).asvector<double>()[at] == -inf);
      for (double bad : {nan_, inf}) {
        v[at] = bad;
        y = nd.softmax(make(v, t, {2, 19})).asvector<double>();
        for (size_t i = 0; i < 19; ++i) CHECK(std::isnan(y[i]));
        for (size_t i = 19; i < 38; ++i) CHECK(y[i] == Approx(1. / 19).epsilon(1e-2));
      }
    }
    // large numbers do not overflow
    CHECK(nd.softmax(make({60000, 60000}, t)).asvector<double>() == std::vector<double>{0.5, 0.5});
  }
}

TEST_CASE("special values: pooling and normalisation let NaN through", "[special]") {
  for (DType t : reals) {
    INFO(name_of(t));
    for (size_t at = 0; at < 16; ++at) {
      std::vector<double> v(16, 1);
      v[at] = nan_;
      const Array x = make(v, t, {1, 1, 4, 4});
      for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum}) {
        const std::vector<double> y =
            nd.Pooling(x, {.kernel = {2, 2}, .pool_type = type, .stride = {2, 2}}).asvector<double>();
        for (size_t i = 0; i < 4; ++i) CHECK(std::isnan(y[i]) == (i == at / 8 * 2 + at % 4 / 2));
      }
      const Array one = nd.ones({1}, {.dtype = t});
      CHECK(std::isnan(nd.LayerNorm(x.reshape({1, 16}), nd.ones({16}, {.dtype = t}), nd.zeros({16}, {.dtype = t}))
                           .asvector<double>()[0]));
    }
  }
}

TEST_CASE("users row 60: sums of 16-bit numbers are rounded once", "[special]") {
  constexpr int64_t n = 100000;
  for (DType t : {DType::float16, DType::bfloat16}) {
    INFO(name_of(t));
    const double half = t == DType::float16 ? 0x1p-11 : 0x1p-8;
    auto near = [&](const Array& y, double want) {
      CHECK(y.dtype() == t);
      for (double v : y.asvector<double>()) CHECK(std::abs(v - want) <= 1.01 * half * want);
    };
    const double one = t == DType::float16 ? 0.5 : 1;  // 1e5 is no float16
    const Array x = nd.full({n}, one, {.dtype = t});
    near(nd.sum(x), double(n) * one);
    near(nd.sum(x.reshape({n, 1}), {.axis = Shape(0)}), double(n) * one);
    near(nd.sum(x.reshape({2, n / 2}), {.axis = Shape(1)}), double(n / 2) * one);
    near(nd.sum(x.reshape({n / 2, 2}), {.axis = Shape(0)}), double(n / 2) * one);
    near(nd.mean(x), one);
    near(nd.norm(x), std::sqrt(double(n)) * one);
    near(nd._sum_to(x, {.shape = {1}}), double(n) * one);
    near(nd.dot(x, x), double(n) * one * one);
    near(nd.dot(x.reshape({1, n}), x.reshape({n, 1})), double(n) * one * one);
    near(nd.FullyConnected(x.reshape({1, n}), x.reshape({1, n}), op::FullyConnected{.num_hidden = 1}),
         double(n) * one * one);
    const Array image = nd.full({1, 64, 15, 15}, 0.5, {.dtype = t}),
                weight = nd.full({1, 64, 15, 15}, 0.5, {.dtype = t});
    near(nd.Convolution(image, weight, op::Convolution{.kernel = {15, 15}, .num_filter = 1}), 64 * 225 * 0.25);
    near(nd.Pooling(nd.full({1, 1, 200, 200}, 1, {.dtype = t}), {.pool_type = PoolType::avg, .global_pool = true}), 1);
    // gradients that add up
    near(nd._backward_take(x.reshape({n, 1}), nd.zeros({n}), {.shape = {1, 1}}), double(n) * one);
    // rows of a softmax
    for (double sum : nd.softmax(nd.random_normal({3, 1000}, {.dtype = t}))
                          .astype(DType::float32)
                          .reshape({3, 1000})
                          .asvector<double>())
      CHECK(sum <= 1);
    for (double sum :
         nd.sum(nd.softmax(nd.random_normal({3, 1000}, {.dtype = t})).astype(DType::float64), {.axis = Shape(1)})
             .asvector<double>()) {
      CHECK(sum == Approx(1).epsilon(1e-2));
    }
  }
}

TEST_CASE("users row 60: 100,000 ones in 16 bits", "[special]") {
  constexpr int64_t n = 100000;
  for (DType t : {DType::float16, DType::bfloat16}) {
    INFO(name_of(t));
    const Array ones = nd.ones({n}, {.dtype = t});
    const double sum =
        nd.full({1}, double(n), {.dtype = t}).asscalar<double>();  // rounded once; no float16 is as large
    CHECK((t == DType::float16) == std::isinf(sum));
    CHECK(nd.sum(ones).asscalar<double>() == sum);
    CHECK(nd.mean(ones).asscalar<double>() == 1);
    CHECK(nd.norm(ones).asscalar<double>() == nd.full({1}, std::sqrt(double(n)), {.dtype = t}).asscalar<double>());
    CHECK(nd.sum(ones.astype(DType::float32)).asscalar<double>() == double(n));
    for (bool exact : {true, false}) {  // a chain and the sum that takes it up
      const Symbol x = sym.var("x");
      CachedGraph graph(Symbol::group({sym.sum(sym.relu(x) * 1), sym.mean(sym.tanh(x) * 0 + x)}), {"x"},
                        {.exact = exact}, "sums");
      const Array* inputs[] = {&ones};
      const std::vector<Array> y = graph.call(inputs, std::source_location::current());
      CHECK(y[0].asscalar<double>() == sum);
      CHECK(y[1].asscalar<double>() == 1);
    }
  }
}

TEST_CASE("users row 60: statistics over 100,000 numbers of 16 bits", "[special]") {
  std::vector<double> v(100000);
  for (size_t i = 0; i < v.size(); ++i) v[i] = i % 2 ? 3 : 1;  // mean 2, variance 1
  auto check = [](const Array& y) {
    const std::vector<double> got = y.asvector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::abs(got[i] - (i % 2 ? 1 : -1)) > 1e-2) FAIL("at " << i << ": " << got[i]);
    }
  };
  for (DType t : {DType::float16, DType::bfloat16}) {
    INFO(name_of(t));
    const Array gamma = nd.ones({1}), beta = nd.zeros({1}), mean = nd.zeros({1}), var = nd.zeros({1});
    check(autograd::train_mode([&] {
      return nd.BatchNorm(make(v, t, {2, 1, 250, 200}), gamma, beta, mean, var, {.momentum = 0, .fix_gamma = false});
    }));
    CHECK(mean.asscalar<double>() == Approx(2).epsilon(1e-3));
    CHECK(var.asscalar<double>() == Approx(1).epsilon(1e-3));
    const int64_t n = int64_t(v.size());
    check(nd.LayerNorm(make(v, t, {1, n}), nd.ones({n}, {.dtype = t}), nd.zeros({n}, {.dtype = t})));
    const Array p = nd.softmax(make(v, t, {50, 2000}));
    for (double sum : nd.sum(p.astype(DType::float64), {.axis = Shape(1)}).asvector<double>()) {
      CHECK(sum == Approx(1).epsilon(1e-2));
    }
  }
}

TEST_CASE("special values: states of optimizers that decay end at zero, not as denormals", "[special]") {
  const auto check = [](const Array& state, double big) {
    const std::vector<double> got = state.asvector<double>();
    for (size_t i = 0; i + 3 < got.size(); ++i) REQUIRE((got[i] == 0 && !std::signbit(got[i])));
    CHECK(got[got.size() - 3] == big);
    CHECK(std::isnan(got[got.size() - 2]));
    CHECK(got.back() == inf);
  };
  for (DType t : {DType::float32, DType::float64, DType::bfloat16}) {
    INFO(name_of(t));
    const double least = t == DType::float64 ? 0x1p-1022 : 0x1p-126;
    std::vector<double> v(40, least);  // whole vectors and a rest
    for (size_t i = 0; i < v.size(); i += 2) v[i] = -least;
    v.insert(v.end(), {4 * least, nan_, inf});
    const auto n = int64_t(v.size());
    const Array none = nd.zeros({n}, {.dtype = t});
    const Array momentum = make(v, t);
    nd.sgd_mom_update(nd.zeros({n}, {.dtype = t}), none, momentum, {.lr = 1, .momentum = 0.5});
    check(momentum, 2 * least);
    for (double& x : v) x = std::abs(x);
    const Array mean = make(v, t), var = make(v, t);
    nd.adam_update(nd.zeros({n}, {.dtype = t}), none, mean, var, {.lr = 1, .beta1 = 0.5, .beta2 = 0.5});
    check(mean, 2 * least);
    check(var, 2 * least);
  }
}

}  // namespace special_values_test

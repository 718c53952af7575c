// Functions whose float32 kernels compute vectors: against the same function of float64, for each instruction set.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/tests/support/targets.h"

namespace float32_functions_test {

using namespace kaon;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan_ = std::numeric_limits<float>::quiet_NaN();
using Floats = std::vector<float>;

NDArray floats(const Floats& v) { return nd.array(v, {int64_t(v.size())}); }
NDArray wide(const Floats& v) { return nd.cast(floats(v), DType::float64); }

// In units of the last place of float32, 2^-149 at least; infinite where one is NaN or infinite and the other is not.
double ulps(float got, double wanted) {
  const float rounded = float(wanted);
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got) ? 0 : double(inf);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : double(inf);
  int exponent = 0;
  std::frexp(std::max(std::abs(wanted), 0x1p-126), &exponent);
  return std::abs(double(got) - wanted) / std::ldexp(1.0, exponent - 24);
}

double worst(const NDArray& got, const NDArray& wanted) {
  const Floats y = got.asvector<float>();
  const std::vector<double> w = wanted.asvector<double>();
  double most = 0;
  for (size_t i = 0; i < y.size(); ++i) most = std::max(most, ulps(y[i], w[i]));
  return most;
}

Floats uniform(size_t n, double low, double high) {
  std::mt19937 draw(3);
  Floats v(n);
  for (float& x : v) x = float(std::uniform_real_distribution<double>(low, high)(draw));
  return v;
}

Floats any_bits(size_t n) {
  std::mt19937 draw(4);
  Floats v(n);
  for (float& x : v) x = std::bit_cast<float>(uint32_t(draw()));
  return v;
}

}  // namespace

TEST_CASE("float32 functions: gammaln and digamma to an ulp, also beside their zeros and below 0") {
  const Floats special = {nan_, inf, -inf,   0.0f,    -0.0f, 1,      2, -1,
                          -2,   -3,  1e-45f, -1e-40f, 3e38f, -1e30f, 8, 7.9999995f};
  const Floats beside_zeros = uniform(999, 0.999, 1.001), root = uniform(999, 1.46, 1.47);
  test::for_each_target([&] {
    for (const Floats& v : {special, beside_zeros, uniform(9999, 0, 20), uniform(9999, -8, 0), any_bits(9999)}) {
      CHECK(worst(nd.gammaln(floats(v)), nd.gammaln(wide(v))) <= 1);
    }
    for (const Floats& v : {special, root, uniform(9999, 0, 20), uniform(9999, -0.9, -0.1)}) {
      CHECK(worst(nd.digamma(floats(v)), nd.digamma(wide(v))) <= 1);
    }
  });
}

TEST_CASE("float32 functions: power to an ulp") {
  const Floats bases = uniform(9999, 0, 8), exponents = uniform(9999, -40, 40), any = any_bits(9999);
  test::for_each_target([&] {
    CHECK(worst(nd.power(floats(bases), floats(exponents)), nd.power(wide(bases), wide(exponents))) <= 1);
    CHECK(worst(nd.power(floats(any), floats(exponents)), nd.power(wide(any), wide(exponents))) <= 1);
    CHECK(worst(nd.power(floats(bases), floats(any)), nd.power(wide(bases), wide(any))) <= 1);
    CHECK(worst(nd.power(floats(any), 2.5), nd.power(wide(any), 2.5)) <= 1);
    const Floats whole = {3, -3, 2, 10, -2, 7}, third = {3, 3, 3, 3, 3, 3};
    CHECK(nd.power(floats(whole), floats(third)).asvector<float>() == Floats{27, -27, 8, 1000, -8, 343});
  });
}

TEST_CASE("float32 functions: gelu to 4 ulp above 0, and with its relative error below") {
  const Floats above = uniform(9999, 0, 14), below = uniform(9999, -8, 0);
  test::for_each_target([&] {
    CHECK(worst(nd.gelu(floats(above)), nd.gelu(wide(above))) <= 4);
    const Floats y = nd.gelu(floats(below)).asvector<float>();
    const std::vector<double> wanted = nd.gelu(wide(below)).asvector<double>();
    for (size_t i = 0; i < y.size(); ++i) CHECK(std::abs(double(y[i]) - wanted[i]) <= 1e-4 * std::abs(wanted[i]));
    const Floats ends = nd.gelu(floats({-inf, -20, -0.0f, inf, 1e-40f, nan_})).asvector<float>();
    for (size_t i = 0; i < 3; ++i) CHECK((ends[i] == 0 && std::signbit(ends[i])));
    CHECK(ends[3] == inf);
    CHECK(ends[4] == Approx(0.5e-40).epsilon(1e-4));
    CHECK(std::isnan(ends[5]));
  });
}

TEST_CASE("float32 functions: quotients, remainders and shifts of int32 in vectors as one by one") {
  const int32_t values[] = {INT32_MIN, INT32_MIN + 1, -7, -1, 0, 1, 2, 3, 31, 32, INT32_MAX - 1, INT32_MAX};
  std::vector<int32_t> a, b;
  for (int32_t x : values) {
    for (int32_t y : values) a.push_back(x), b.push_back(y);
  }
  std::mt19937 draw(5);
  for (int i = 0; i < 1001; ++i) a.push_back(int32_t(draw())), b.push_back(int32_t(draw()) >> (draw() % 32));
  const auto array = [](const std::vector<int32_t>& v) {
    return nd.array(std::span<const int32_t>(v), {int64_t(v.size())}, {.dtype = DType::int32});
  };
  test::for_each_target([&] {
    const std::vector<int32_t> quotients = (array(a) / array(b)).asvector<int32_t>();
    const std::vector<int32_t> rests = (array(a) % array(b)).asvector<int32_t>();
    const std::vector<int32_t> shifted = nd.left_shift(array(a), array(b)).asvector<int32_t>();
    for (size_t i = 0; i < a.size(); ++i) {
      const int64_t x = a[i], y = b[i], rest = y == 0 ? 0 : x % y;
      INFO(x << " and " << y);
      CHECK(quotients[i] == (y == 0 ? 0 : int32_t(uint32_t(x / y))));
      CHECK(rests[i] == (rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest));
      CHECK(shifted[i] == (y < 0 || y > 31 ? 0 : int32_t(uint32_t(a[i]) << y)));
    }
  });
}

TEST_CASE("float32 functions: a number that repeats along a row gives the bits of an array of it") {
  const int64_t rows = 5, columns = 1003;
  const Floats numbers = {0.0f, -1.5f, nan_, inf, 3.0f};
  Floats values = uniform(size_t(rows * columns), -3, 3);
  values[7] = nan_, values[1500] = -0.0f, values[2900] = inf, values[4999] = 0.0f;
  const NDArray x = nd.array(values, {rows, columns}), column = nd.array(numbers, {rows, 1});
  const NDArray spread = nd.broadcast_to(column, Shape(rows, columns));
  const auto bits = [](const NDArray& a) {
    std::vector<uint32_t> all;
    for (float v : a.asvector<float>()) all.push_back(std::isnan(v) ? 0x7fc00000u : std::bit_cast<uint32_t>(v));
    return all;
  };
  test::for_each_target([&] {
    for (const auto& f : std::vector<NDArray (*)(const NDArray&, const NDArray&)>{
             [](const NDArray&a, const NDArray&b) { return a + b; },
             [](const NDArray&a, const NDArray&b) { return a - b; },
             [](const NDArray&a, const NDArray&b) { return a * b; },
             [](const NDArray&a, const NDArray&b) { return a / b; },
             [](const NDArray&a, const NDArray&b) { return a % b; },
             [](const NDArray&a, const NDArray&b) { return a < b; },
             [](const NDArray&a, const NDArray&b) { return a == b; },
             [](const NDArray&a, const NDArray&b) { return nd.broadcast_power(a, b); },
             [](const NDArray&a, const NDArray&b) { return nd.broadcast_hypot(a, b); },
             [](const NDArray&a, const NDArray&b) { return nd.broadcast_maximum(a, b); },
             [](const NDArray&a, const NDArray&b) { return nd.broadcast_minimum(a, b); }}) {
      CHECK(bits(f(x, column)) == bits(f(x, spread)));
      CHECK(bits(f(column, x)) == bits(f(spread, x)));
    }
    NDArray y = x.copy();
    y -= column;
    CHECK(bits(y) == bits(x - spread));
  });
}

}  // namespace float32_functions_test

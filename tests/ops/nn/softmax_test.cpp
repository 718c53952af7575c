// softmax over rows whose exponentials reach below the normal numbers of float32.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/ops/functions.h"

namespace softmax_test {

using namespace kaon;

TEST_CASE("softmax: each exponential to 4 ulp, or to the smallest number of float32") {
  std::vector<double> logs{0};
  for (double x = -0.001; x > -106; x *= 1.01) logs.push_back(double(float(x)));
  double sum = 0;
  for (double x : logs) sum += std::exp(x);
  const std::vector<double> y = nd.softmax(nd.array(logs)).asvector<double>();
  const std::vector<double> l = nd.log_softmax(nd.array(logs)).asvector<double>();
  int wrong = 0;
  for (size_t i = 0; i < logs.size(); ++i) {
    const double want = std::exp(logs[i]) / sum;
    wrong += !(std::abs(y[i] - want) <= std::max(want * 0x1p-21, 0x1p-149));
    wrong += !(std::abs(l[i] - (logs[i] - std::log(sum))) <= 0x1p-21 * std::max(1.0, -l[i]));
  }
  CHECK(wrong == 0);
}

TEST_CASE("softmax: the gradient of log_softmax takes any number for the logarithms") {
  const std::vector<double> head{1, -2, 0.5}, logs{3, 60, -2};
  const std::vector<double> d = nd._backward_log_softmax(nd.array(head), nd.array(logs), {}).asvector<double>();
  for (size_t i = 0; i < 3; ++i) {
    const double want = head[i] + 0.5 * std::exp(logs[i]);  // the heads sum to -0.5
    CHECK(std::abs(d[i] - want) <= 1e-6 * std::abs(want));
  }
}

// MXNet 1.9.1's numbers.
TEST_CASE("softmax: a temperature divides differences, so that large numbers do not overflow") {
  const std::vector<double> first{1, 0}, last{0, 1};
  for (const auto& [large, temperature] : {std::pair(1e30, 1e-9), std::pair(3e38, 0.5), std::pair(-3e38, 0.5)}) {
    INFO(large);
    const auto& want = large > 0 ? first : last;
    const auto& other = large > 0 ? last : first;
    const NDArray row = nd.array({large, 1.0}), columns = nd.array({{large}, {1.0}});
    CHECK(nd.softmax(row, {.temperature = temperature}).asvector<double>() == want);
    CHECK(nd.softmin(row, {.temperature = temperature}).asvector<double>() == other);
    CHECK(nd.softmax(columns, {.axis = 0, .temperature = temperature}).asvector<double>() == want);
    const std::vector<double> logs = nd.log_softmax(row, {.temperature = temperature}).asvector<double>();
    CHECK(logs[large > 0 ? 0 : 1] == 0);
  }
}

}  // namespace softmax_test

// softmax over rows whose exponentials reach below the normal numbers of float32.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/ops/functions.h"

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

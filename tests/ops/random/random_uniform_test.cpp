// Uniform numbers of each dtype: the ends of the range, and that none comes too often.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kaon/ops/functions.h"

namespace random_uniform_test {

using namespace kaon;

namespace {

std::vector<double> draws(DType t, double low, double high) {
  return nd.random_uniform({1 << 20}, {.low = low, .high = high, .dtype = t}).asvector<double>();
}

}  // namespace

TEST_CASE("uniform: in [0, 1) neither 0 nor 1 comes out, whose logarithms would be infinite or 0", "[ops]") {
  for (DType t : {DType::float16, DType::bfloat16}) {
    INFO(name_of(t));
    std::vector<double> v = draws(t, 0, 1);
    const auto [least, most] = std::minmax_element(v.begin(), v.end());
    CHECK(*least > 0);
    CHECK(*least < 1e-5);  // small numbers are finer than large ones
    CHECK(*most == (t == DType::float16 ? 1 - 0x1p-11 : 1 - 0x1p-8));
  }
}

TEST_CASE("uniform: 16-bit floats are rounded, so that sums of them are those of the range", "[ops][unsanitized]") {
  struct Range {
    double low, high;
  };
  for (DType t : {DType::float32, DType::float16, DType::bfloat16}) {
    for (auto [low, high] : {Range{0, 1}, {-1, 1}, {2, 3}, {-3, -2}}) {
      INFO(name_of(t) << " " << low << " to " << high);
      const std::vector<double> v = draws(t, low, high);
      double sum = 0;
      std::map<double, int> counts;
      for (double x : v) sum += x, ++counts[x];
      CHECK(counts.begin()->first >= low);
      CHECK(counts.rbegin()->first < high);
      const double width = high - low, spacing = t == DType::bfloat16 ? 0x1p-6 : t == DType::float16 ? 0x1p-9 : 0;
      // 5 standard deviations of the mean, and the numbers beyond the last that is below high
      CHECK(std::abs(sum / double(v.size()) - (low + high) / 2) <
            5 * width / std::sqrt(12.0 * double(v.size())) + spacing * spacing);
    }
  }
}

}  // namespace random_uniform_test

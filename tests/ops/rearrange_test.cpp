// boolean_mask, whose result's size depends on values; cumsum and erfinv at special values.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/gluon/block.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/support/check_gpu.h"

namespace rearrange_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();

struct Masked : gluon::HybridBlock<Masked> {
  auto hybrid_forward(auto F, auto x) { return F.boolean_mask(x, x); }
};

}  // namespace

TEST_CASE("boolean_mask: slices along an axis where the index is not 0") {
  const NDArray x = nd.array({{1, 2, 3}, {4, 5, 6}});
  const NDArray rows = nd.boolean_mask(x, nd.array({0, -2}));
  CHECK(rows.shape() == Shape(1, 3));
  CHECK(rows.asvector<float>() == std::vector<float>{4, 5, 6});
  const NDArray columns = nd.boolean_mask(x, nd.array({nan_, 0, 1}), -1);
  CHECK(columns.asvector<float>() == std::vector<float>{1, 3, 4, 6});
  CHECK(nd.boolean_mask(x, nd.zeros({2}, {.dtype = DType::boolean})).shape() == Shape(0, 3));
  CHECK(nd.boolean_mask(nd.ones({0, 3}), nd.ones({0})).shape() == Shape(0, 3));
  CHECK(nd.boolean_mask(nd.ones({2, 3}, {.dtype = DType::int32}), nd.ones({2})).dtype() == DType::int32);
}

TEST_CASE("boolean_mask: the gradient goes to the slices that are taken") {
  NDArray x = nd.array({{1, 2}, {3, 4}, {5, 6}});
  x.attach_grad();
  const NDArray y = autograd::record([&] { return nd.square(nd.boolean_mask(x, nd.array({1, 0, 1}))); });
  y.backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{2, 4, 0, 0, 10, 12});
}

TEST_CASE("boolean_mask: a trace refuses it, an imperative call of the block does not") {
  Masked net;
  CHECK(net(nd.array({3, 0, 5})).asvector<float>() == std::vector<float>{3, 5});
  net.hybridize();
  CHECK_THROWS_WITH(net(nd.array({3, 0, 5})),
                    Catch::Matchers::Contains("[boolean_mask]") && Catch::Matchers::Contains("depends on the values"));
}

TEST_CASE("boolean_mask: on a GPU", "[cuda]") {
  if (!kaon::test::has_gpu()) return;
  const NDArray x = nd.array({{1, 2, 3}, {4, 5, 6}}, {.device = gpu(0)});
  const NDArray y = nd.boolean_mask(x, nd.array({0, 1}, {2}, {.device = gpu(0)}));
  CHECK(y.device() == gpu(0));
  CHECK(y.asvector<float>() == std::vector<float>{4, 5, 6});
}

TEST_CASE("cumsum: NaN and infinity stay, integers wrap, 16-bit floats are summed in float32") {
  const std::vector<float> y = nd.cumsum(nd.array({1, inf, 2, -inf, 3})).asvector<float>();
  CHECK(y[0] == 1);
  CHECK(y[1] == inf);
  CHECK(y[2] == inf);
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(y[4]));
  const NDArray bytes = nd.array({100, 100, 100}, {3}, {.dtype = DType::int8});
  CHECK(nd.cumsum(bytes).asvector<int8_t>() == std::vector<int8_t>{100, -56, 44});
  CHECK(nd.cumsum(bytes, {.dtype = DType::int32}).asvector<int32_t>() == std::vector<int32_t>{100, 200, 300});
  const NDArray ones = nd.ones({5000}, {.dtype = DType::float16});
  CHECK(nd.cumsum(ones).asvector<double>().back() == 5000);  // 2048 + 1 is 2048 in float16
}

TEST_CASE("erfinv: within an ulp of the inverse in float32, and few of float64") {
  for (double x : {0.0, 1e-30, 1e-8, 0.1, 0.3, 0.4999, 0.5, 0.7, 0.9, 0.99, 0.9999, 0.9999999, 1 - 0x1p-50}) {
    for (double sign : {1.0, -1.0}) {
      const double y = nd.erfinv(nd.array({sign * x}, {1}, {.dtype = DType::float64})).asvector<double>()[0];
      CAPTURE(x, sign, y);
      CHECK(std::signbit(y) == (sign < 0));
      // the step of Newton's method that is left
      const double error = (x < 0.5 ? std::erf(std::abs(y)) - x : (1 - x) - std::erfc(std::abs(y))) /
                           (1.1283791670955126 * std::exp(-y * y));
      CHECK(std::abs(error) <= 1e-15 * std::abs(y));
      const float single = float(sign * x);
      if (std::abs(single) == 1) continue;
      const double wanted = nd.erfinv(nd.array({double(single)}, {1}, {.dtype = DType::float64})).asvector<double>()[0];
      CHECK(nd.erfinv(nd.array({single})).asvector<float>()[0] == float(wanted));
    }
  }
  const std::vector<float> ends = nd.erfinv(nd.array({1, -1, 2, nan_, -1.5, inf})).asvector<float>();
  CHECK(ends[0] == inf);
  CHECK(ends[1] == -inf);
  for (size_t i = 2; i < ends.size(); ++i) CHECK(std::isnan(ends[i]));
}

}  // namespace rearrange_test

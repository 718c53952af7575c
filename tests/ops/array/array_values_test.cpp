// nd.array's numbers in braces: kinds, shapes, and inside co_await expressions, where g++ 12 bears no C array.
#include "kaon/ops/array_values.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/engine/task.h"
#include "kaon/ops/functions.h"

namespace array_values_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {

Task<std::vector<float>> values_in_co_await() {
  std::vector<float> all;
  const auto take = [&](const NDArray& x) {
    for (float v : x.asvector<float>()) all.push_back(v);
  };
  take(co_await nd.relu(nd.array({-1, 2, 3})));
  take(co_await nd.array({1.5, 2}, {2, 1}));
  take(co_await (nd.array({{1, 2}, {3, 4}}) + nd.array({{10}, {20}})));
  take(co_await nd.broadcast_mul(nd.array({7}), nd.array({1, 2}, {2}, {.dtype = DType::float32})));
  all.push_back(co_await nd.array({{1, 2, 3}}).sum().item<float>());
  co_return all;
}

}  // namespace

TEST_CASE("array: numbers in braces inside a co_await expression") {
  CHECK(sync_wait(values_in_co_await()) == std::vector<float>{0, 2, 3, 1.5, 2, 11, 12, 23, 24, 7, 14, 6});
}

TEST_CASE("array: shapes of numbers in braces") {
  CHECK(nd.array({4}).shape() == Shape(1));
  CHECK(nd.array({1, 2, 3}).shape() == Shape(3));
  CHECK(nd.array({1, 2, 3, 4}, {2, 2}).shape() == Shape(2, 2));
  CHECK(nd.array({{1, 2, 3}}).shape() == Shape(1, 3));
  CHECK(nd.array({{1}, {2}}).shape() == Shape(2, 1));
  CHECK(nd.array({{1, 2}, {3, 4}, {5, 6}}).asvector<int>() == std::vector<int>{1, 2, 3, 4, 5, 6});
  const NDArray sixteen =
      nd.array({{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}, {16}});
  CHECK(sixteen.shape() == Shape(16, 1));
  CHECK(sixteen.sum().asscalar<int>() == 136);
  const NDArray seventeen =
      nd.array({{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}, {16}, {17}});
  CHECK(seventeen.shape() == Shape(17, 1));
  CHECK(seventeen.sum().asscalar<int>() == 153);
  CHECK_THROWS_WITH(nd.array({{1, 2}, {3}}), Contains("[array] row 1 has 1 values, row 0 has 2"));
  CHECK_THROWS_WITH(nd.array({1, 2, 3}, {2, 2}), Contains("[array] 3 values do not fill shape (2, 2)"));
}

TEST_CASE("array: numbers of all kinds keep their values") {
  CHECK(nd.array({1, 2.5, true, 3.0f}).asvector<double>() == std::vector<double>{1, 2.5, 1, 3});
  CHECK(nd.array({9007199254740993, 1L}, {2}, {.dtype = DType::int64}).asvector<int64_t>() ==
        std::vector<int64_t>{9007199254740993, 1});
  CHECK(nd.array({18446744073709551615ull}, {1}, {.dtype = DType::float64}).asscalar<double>() == 0x1p64);
  CHECK(nd.array({0.1f}).asscalar<float>() == 0.1f);
  CHECK(nd.array({0.1}, {1}, {.dtype = DType::float64}).asscalar<double>() == 0.1);
  CHECK(std::signbit(nd.array({-0.0}).asscalar<float>()));
  CHECK(std::isnan(nd.array({NAN, 1}).asvector<float>()[0]));
  CHECK(nd.array({true, false}, {2}, {.dtype = DType::boolean}).asvector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("array: C arrays by name, constant and not") {
  const float constant[] = {1, 2};
  int rows[2][3] = {{1, 2, 3}, {4, 5, 6}};
  CHECK(nd.array(constant).asvector<float>() == std::vector<float>{1, 2});
  CHECK(nd.array(constant, {2, 1}).shape() == Shape(2, 1));
  CHECK(nd.array(rows, {.dtype = DType::int64}).asvector<int64_t>() == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
}

}  // namespace array_values_test

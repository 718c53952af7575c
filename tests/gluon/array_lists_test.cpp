// Batches split over devices, and gradients clipped together.
#include "kaon/gluon/util/array_lists.h"

#include <limits>

#include "kaon/gluon/nn/nn.h"
#include "kaon/tests/gluon/support.h"

namespace array_lists_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::vector<Shape> shapes_of(const std::vector<NDArray>& arrays) {
  std::vector<Shape> shapes;
  for (const NDArray& a : arrays) shapes.push_back(a.shape());
  return shapes;
}

}  // namespace

TEST_CASE("split_data: equal parts, or longer ones first", "[gluon]") {
  const NDArray x = nd.reshape(nd.arange(14), {7, 2});
  const auto parts = split_data(x, 3, {.even_split = false});
  CHECK(shapes_of(parts) == std::vector<Shape>{{3, 2}, {2, 2}, {2, 2}});
  require_close(parts[0], {0, 1, 2, 3, 4, 5});
  require_close(parts[2], {10, 11, 12, 13});
  const auto columns = split_data(x, 2, {.batch_axis = -1});
  CHECK(shapes_of(columns) == std::vector<Shape>{{7, 1}, {7, 1}});
  require_close(columns[1], {1, 3, 5, 7, 9, 11, 13});
  CHECK(shapes_of(split_data(nd.ones({2, 3}), 3, {.even_split = false})) == std::vector<Shape>{{1, 3}, {1, 3}, {0, 3}});
  CHECK(shapes_of(split_data(nd.zeros({0, 3}), 2)) == std::vector<Shape>{{0, 3}, {0, 3}});
  CHECK_THROWS_WITH(split_data(x, 2), Contains("(7, 2)") && Contains("multiple of 2"));
  CHECK_THROWS_AS(split_data(x, 0), ValueError);
  CHECK_THROWS_AS(split_data(x, 1, {.batch_axis = 2}), ShapeError);
}

TEST_CASE("split_and_load: a part for each device", "[gluon]") {
  const std::vector<Device> devices{cpu(0), cpu(1)};
  const auto parts = split_and_load(nd.arange(4), devices);
  REQUIRE(parts.size() == 2);
  for (size_t i = 0; i < parts.size(); ++i) CHECK(parts[i].device() == devices[i]);
  require_close(parts[1], {2, 3});
  CHECK_THROWS_AS(split_and_load(nd.arange(4), std::vector<Device>{}), ValueError);
}

TEST_CASE("clip_global_norm: one factor for all arrays", "[gluon]") {
  const auto clipped = [](std::vector<NDArray> arrays, double max_norm) {
    std::vector<double> all = values(clip_global_norm(arrays, max_norm));
    for (const NDArray& a : arrays) {
      for (double v : values(a)) all.push_back(v);
    }
    return all;
  };
  // norm first: sqrt(1 + 4 + 4)
  require_close(clipped({nd.array({1, 2}), nd.array({-2})}, 1.5), {3, 0.5, 1, -1});
  require_close(clipped({nd.array({1, 2}), nd.array({-2})}, 3), {3, 1, 2, -2});
  require_close(clipped({nd.array({1, 2}), nd.array({-2})}, 0), {3, 0, 0, 0});
  require_close(clipped({nd.cast(nd.array({3, 0}), DType::float16), nd.cast(nd.array({4}), DType::float64),
                         nd.zeros({0, 2}), nd.array({0}).as_in_context(cpu(1))},
                        2.5),
                {5, 1.5, 0, 2, 0}, 1e-3);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinite = clipped({nd.array({inf, 2}), nd.array({3})}, 1);
  CHECK(infinite[0] == inf);
  CHECK(std::isnan(infinite[1]));
  CHECK(infinite[3] == 0);
  for (double v : clipped({nd.array({nan, 2}), nd.array({3})}, 1)) CHECK(std::isnan(v));
  CHECK_THROWS_AS(clip_global_norm(std::vector<NDArray>{}, 1), ValueError);
  CHECK_THROWS_AS(clip_global_norm(std::vector<NDArray>{nd.ones({2})}, -1), ValueError);
  CHECK_THROWS_AS(clip_global_norm(std::vector<NDArray>{nd.ones({2})}, nan), ValueError);
  CHECK_THROWS_AS(clip_global_norm(std::vector<NDArray>{nd.cast(nd.ones({2}), DType::int32)}, 1), TypeError);
}

TEST_CASE("clip_global_norm: the gradients of a net", "[gluon]") {
  nn::HybridSequential net(nn::Dense(3), nn::BatchNorm(), nn::Dense(2));
  net.initialize();
  NDArray loss = autograd::record([&] { return nd.square(net(nd.random_normal({4, 5})) * 100).sum(); });
  loss.backward();
  const double norm = values(clip_global_norm(net.collect_params(), 0.25))[0];
  CHECK(norm > 0.25);
  CHECK(values(clip_global_norm(net.collect_params(), 1))[0] == Approx(0.25).epsilon(1e-4));
}

}  // namespace array_lists_test

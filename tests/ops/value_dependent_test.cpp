// Functions the size of whose result depends on values: nonzero, unique, bincount; numbers far apart in statistics.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/gluon/block.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/support/check_gpu.h"

namespace value_dependent_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();

using Indices = std::vector<int64_t>;

struct Different : gluon::HybridBlock<Different> {
  auto hybrid_forward(auto F, auto x) { return F.unique(x)[0]; }
};

}  // namespace

TEST_CASE("nonzero: positions in row-major order") {
  const NDArray at = nd.nonzero(nd.array({{0, nan_, -0.0}, {3, 0, -1}}));
  CHECK(at.dtype() == DType::int64);
  CHECK(at.shape() == Shape(3, 2));
  CHECK(at.asvector<int64_t>() == Indices{0, 1, 1, 0, 1, 2});
  CHECK(nd.nonzero(nd.zeros({2, 3, 4})).shape() == Shape(0, 3));
  CHECK(nd.nonzero(nd.ones({0, 3})).shape() == Shape(0, 2));
  CHECK(nd.nonzero(nd.ones({3, 0})).shape() == Shape(0, 2));
  CHECK(nd.nonzero(nd.ones(Shape())).asvector<int64_t>() == Indices{0});
  const NDArray cube = nd.nonzero(nd.array({0, 1, 0, 0, 0, 0, 1, 1}, {2, 2, 2}, {.dtype = DType::boolean}));
  CHECK(cube.asvector<int64_t>() == Indices{0, 0, 1, 1, 1, 0, 1, 1, 1});
}

TEST_CASE("unique: values in order, where each is first, which one each is, how many there are") {
  const std::vector<NDArray> y = nd.unique(nd.array({{3, 1, nan_}, {1, 2, nan_}}));
  const std::vector<float> values = y[0].asvector<float>();
  REQUIRE(values.size() == 4);
  CHECK((values[0] == 1 && values[1] == 2 && values[2] == 3 && std::isnan(values[3])));
  CHECK(y[1].asvector<int64_t>() == Indices{1, 4, 0, 2});
  CHECK(y[2].shape() == Shape(2, 3));
  CHECK(y[2].asvector<int64_t>() == Indices{2, 0, 3, 0, 1, 3});
  CHECK(y[3].asvector<int64_t>() == Indices{2, 1, 1, 2});
  const std::vector<NDArray> bools = nd.unique(nd.array({1, 0, 1}, {3}, {.dtype = DType::boolean}));
  CHECK(bools[0].dtype() == DType::boolean);
  CHECK(bools[0].asvector<int64_t>() == Indices{0, 1});
  const NDArray large = nd.array(std::vector<int64_t>{(1ll << 60) + 1, 1ll << 60}, {2}, {.dtype = DType::int64});
  CHECK(nd.unique(large)[0].asvector<int64_t>() == Indices{1ll << 60, (1ll << 60) + 1});
  for (const NDArray& none : nd.unique(nd.zeros({0, 3}))) CHECK(none.size() == 0);
  CHECK(nd.unique(nd.ones(Shape()))[3].asvector<int64_t>() == Indices{1});
}

TEST_CASE("unique: the gradient goes to the first of equal elements") {
  NDArray x = nd.array({2, 1, 2});
  x.attach_grad();
  const NDArray y = autograd::record([&] { return nd.square(nd.unique(x)[0]); });
  y.backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{4, 2, 0});
}

TEST_CASE("bincount: counts and sums of weights") {
  const NDArray x = nd.array({1, 3, 1}, {3}, {.dtype = DType::uint8});
  CHECK(nd.bincount(x).asvector<int64_t>() == Indices{0, 2, 0, 1});
  CHECK(nd.bincount(x, 6).asvector<int64_t>() == Indices{0, 2, 0, 1, 0, 0});
  NDArray w = nd.array({0.5, 2, 1});
  w.attach_grad();
  const NDArray sums = autograd::record([&] { return nd.square(nd.bincount(x, w)); });
  CHECK(sums.asvector<float>() == std::vector<float>{0, 2.25, 0, 4});
  sums.backward();
  CHECK(w.grad().asvector<float>() == std::vector<float>{3, 4, 3});
  CHECK(nd.bincount(nd.zeros({0}, {.dtype = DType::int32})).shape() == Shape(0));
  CHECK(nd.bincount(nd.zeros({0}, {.dtype = DType::int32}), 2).asvector<int64_t>() == Indices{0, 0});
}

TEST_CASE("nonzero, unique and bincount: a trace refuses them, an imperative call of the block does not") {
  Different net;
  CHECK(net(nd.array({3, 1, 3})).asvector<float>() == std::vector<float>{1, 3});
  net.hybridize();
  CHECK_THROWS_WITH(net(nd.array({3, 1, 3})),
                    Catch::Matchers::Contains("[unique]") && Catch::Matchers::Contains("depends on the values"));
}

TEST_CASE("nonzero, unique and bincount: on a GPU", "[cuda]") {
  if (!kaon::test::has_gpu()) return;
  const NDArray x = nd.array({3, 0, 3}, {3}, {.dtype = DType::int32, .device = gpu(0)});
  CHECK(nd.nonzero(x).asvector<int64_t>() == Indices{0, 2});
  CHECK(nd.unique(x)[0].asvector<int64_t>() == Indices{0, 3});
  CHECK(nd.bincount(x).device() == gpu(0));
  CHECK(nd.bincount(x).asvector<int64_t>() == Indices{1, 0, 0, 2});
}

TEST_CASE("array_equal and allclose: one answer") {
  const NDArray x = nd.array({1, 2, inf});
  CHECK(nd.array_equal(x, x).asscalar<bool>());
  CHECK_FALSE(nd.array_equal(x, nd.array({1, 2, 3})).asscalar<bool>());
  CHECK(nd.allclose(x, x * 1.000001).asscalar<int>() == 1);
  CHECK(nd.allclose(x, nd.array({1, 2, nan_})).asscalar<int>() == 0);
}

TEST_CASE("sum and mean: along one axis") {
  const NDArray x = nd.array({{1, 2, 3}, {4, 5, 6}});
  CHECK(nd.sum(x, 1).asvector<float>() == std::vector<float>{6, 15});
  CHECK(nd.mean(x, -2).asvector<float>() == std::vector<float>{2.5, 3.5, 4.5});
  CHECK(nd.sum(x, {}).asvector<float>() == std::vector<float>{21});
}

TEST_CASE("where: numbers as arms") {
  const NDArray c = nd.array({1, 0, 1}), x = nd.array({5, 6, 7});
  CHECK(nd.where(c, x, -1).asvector<float>() == std::vector<float>{5, -1, 7});
  CHECK(nd.where(c, 2.5, x).asvector<float>() == std::vector<float>{2.5, 6, 2.5});
  CHECK(nd.where(c, 1, 0).asvector<float>() == std::vector<float>{1, 0, 1});
  CHECK(nd.where(c, x, x).asvector<float>() == std::vector<float>{5, 6, 7});
}

TEST_CASE("logsumexp: infinities, and numbers beyond the range of exp") {
  const auto of = [](const NDArray& x) { return nd.logsumexp(x).asscalar<float>(); };
  CHECK(of(nd.array({1000, 1000})) == Approx(1000.6931));
  CHECK(of(nd.array({-1000, -1000})) == Approx(-999.30685));
  CHECK(of(nd.array({-inf, 2})) == 2);
  CHECK(of(nd.array({inf, 2})) == inf);
  CHECK(of(nd.array({-inf, -inf})) == -inf);
  CHECK(std::isnan(of(nd.array({nan_, 2}))));
}

TEST_CASE("var and std: numbers far from 0, and 16-bit floats whose squares are too large for them") {
  const NDArray far = nd.array({10000.0, 10001.0, 10002.0, 10003.0});
  CHECK(nd.var(far).asscalar<float>() == Approx(1.25));
  CHECK(nd.std(far, {.ddof = 1}).asscalar<float>() == Approx(1.2909944));
  const NDArray half = nd.array({-1000, 1000}, {2}, {.dtype = DType::float16});
  CHECK(nd.std(half).asscalar<float>() == 1000);
  CHECK(nd.var(half).asscalar<float>() == inf);  // 1e6 is no float16
  CHECK(nd.var(nd.array({1, 2}), {.ddof = 2}).asscalar<float>() == inf);
  CHECK(std::isnan(nd.var(nd.array({1}), {.ddof = 1}).asscalar<float>()));
}

TEST_CASE("quantiles of many elements: as sorting gives them") {
  std::vector<float> x(40000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 7919 % 40009) - 20000) / (i % 3 == 0 ? 64 : 1);
  const NDArray a = nd.array(x, {40000});
  std::sort(x.begin(), x.end());
  CHECK(nd.quantile(a, 0.0).asscalar<float>() == x.front());
  CHECK(nd.quantile(a, 1.0).asscalar<float>() == x.back());
  CHECK(nd.median(a).asscalar<float>() == (x[19999] + x[20000]) / 2);
  CHECK(nd.quantile(a, 0.25, {.interpolation = Interpolation::lower}).asscalar<float>() == x[9999]);
  const NDArray equal = nd.full({40000}, 2.5);
  CHECK(nd.median(equal).asscalar<float>() == 2.5);
}

TEST_CASE("histogram: edges belong to the bin that they begin, NaN and numbers outside to none") {
  const std::vector<NDArray> y = nd.histogram(nd.array({0, 0.1, 0.3, 1, -0.1, 1.1, nan_, inf}), 10, 0, 1);
  CHECK(y[0].asvector<int64_t>() == Indices{1, 1, 0, 1, 0, 0, 0, 0, 0, 1});
  CHECK(y[1].asvector<float>()[3] == 0.3f);
}

}  // namespace value_dependent_test

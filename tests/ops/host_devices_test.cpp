// cpu(1) and further devices of the host.
#include <catch2/catch.hpp>

#include "kaon/ops/functions.h"

namespace host_devices_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {
std::vector<float> values(const NDArray& a) { return a.asvector<float>(); }
}  // namespace

TEST_CASE("device: arrays of cpu(1) compute as those of cpu(0), and are copied between them", "[ndarray]") {
  const NDArray a = nd.array({1.f, 2.f, 3.f, 4.f}, {2, 2});
  NDArray b = a.as_in_context(cpu(1));
  CHECK(b.device() == cpu(1));
  CHECK_THAT(to_string(b), Contains("@cpu(1)"));
  CHECK(values(b) == values(a));
  b += 1;
  CHECK(values(a) == std::vector<float>{1, 2, 3, 4});  // a copy
  CHECK((b * 2).device() == cpu(1));
  CHECK(values(nd.dot(b, b)) == std::vector<float>{16, 21, 28, 37});
  CHECK(b.sum().asscalar<float>() == 14);
  CHECK_THROWS_WITH(a + b, Contains("cpu(0) and cpu(1)"));
  NDArray c = nd.zeros({2, 2}, {.device = cpu(1)});
  CHECK(c.device() == cpu(1));
  c.assign(a);
  CHECK(values(c) == values(a));
  a.copyto(c);
  CHECK(c.device() == cpu(1));
  c.assign(nd.array({7.f, 8.f}, {2}));  // from another device, broadcast
  CHECK(values(c) == std::vector<float>{7, 8, 7, 8});
  c.slice_assign({0, 0}, {1, 2}, 3);
  CHECK(values(c) == std::vector<float>{3, 3, 7, 8});
  CHECK(values(c.as_in_context(cpu(0)) + a) == std::vector<float>{4, 5, 10, 12});
  CHECK(values(nd.zeros({0, 3}).as_in_context(cpu(2))).empty());
  CHECK(nd.random_uniform({3}, {.ctx = cpu(3)}).device() == cpu(3));
}

}  // namespace host_devices_test

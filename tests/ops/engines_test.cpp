// Arrays of several engines, and of engines that have ended.
#include <catch2/catch.hpp>

#include "kaon/engine/task.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/support/files.h"

namespace engines_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::vector<float> values(const NDArray& a) { return a.asvector<float>(); }

NDArray of_ended_engine() {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  return nd.array({1.f, 2.f, 3.f, 4.f}, {2, 2}) * 2;
}

}  // namespace

TEST_CASE("engines: what belongs to two of them is not assigned, copied or updated", "[ndarray]") {
  Watchdog watchdog;
  Engine a({.threads = 1}), b({.threads = 1});
  NDArray x, y;
  {
    EngineScope scope(a);
    x = nd.ones({1000});
  }
  {
    EngineScope scope(b);
    y = nd.zeros({1000});
    for (int i = 0; i < 2000; ++i) y += 1.0;
  }
  const auto refusal = Contains("belong to different engines"), named = Contains("EngineScope");
  CHECK_THROWS_WITH(y.assign(x), refusal && named);
  CHECK_THROWS_WITH(x.copyto(y), refusal && named);
  CHECK_THROWS_WITH(y += x, refusal && named);
  CHECK_THROWS_WITH(y.slice_assign({0}, {10}, x.slice(0, 10)), refusal && named);
  CHECK_THROWS_WITH(y.assign(x.astype(DType::float64)), refusal && named);
  CHECK_THROWS_AS(y.assign(x.as_in_context(cpu(1))), DeviceError);
  a.wait_all();
  b.wait_all();
  CHECK(values(y) == std::vector<float>(1000, 2000.f));
}

TEST_CASE("engines: an array is written and sliced under another engine than its own", "[ndarray]") {
  Watchdog watchdog;
  Engine own({.threads = 1}), around({.threads = 1});
  NDArray x;
  {
    EngineScope scope(own);
    x = nd.zeros({2, 3});
  }
  EngineScope scope(around);
  x.slice_assign({0, 1}, {2, 2}, 5);
  x.slice_assign({1, 0}, {2, 3}, x.slice(0, 1) + 1);
  x += 1;
  CHECK(values(x) == std::vector<float>{1, 6, 1, 2, 7, 2});
  CHECK(&x.engine() == &own);
  CHECK(around.stats().ops == 0);
}

TEST_CASE("engine end: its arrays are read, saved, printed and awaited", "[ndarray]") {
  const NDArray x = of_ended_engine();
  CHECK(values(x) == std::vector<float>{2, 4, 6, 8});
  CHECK(values(x[1]) == std::vector<float>{6, 8});
  CHECK(values(x.slice(0, 1)) == std::vector<float>{2, 4});
  CHECK(values(x.reshape({-1})) == std::vector<float>{2, 4, 6, 8});
  CHECK(x[0][1].asscalar<float>() == 4);
  CHECK(x.shape() == Shape(2, 2));
  CHECK_THAT(to_string(x), Contains("2x2"));
  CHECK_NOTHROW(x.wait_to_read());
  CHECK_NOTHROW(x.wait_to_write());
  const ScratchFolder folder;
  nd_file::save(folder / "x.nd", {{"x", x}});
  CHECK(values(nd_file::load(folder / "x.nd").front().second) == values(x));
  auto body = [](NDArray a) -> Task<float> {
    NDArray ready = co_await a;
    const std::vector<float> all = co_await ready.host<float>();
    const float one = co_await ready[1][1].item<float>();
    co_return all[0] + one;
  };
  CHECK(sync_wait(body(x)) == 10);
}

TEST_CASE("engine end: every operation on its arrays throws StateError that says so", "[ndarray]") {
  NDArray x = of_ended_engine();
  const auto ended = Contains("the engine of this array has ended");
  CHECK_THROWS_WITH(x + 1, ended);
  CHECK_THROWS_AS(x + 1, StateError);
  CHECK_THROWS_WITH(x + x, ended);
  CHECK_THROWS_WITH(x + nd.ones({2, 2}), ended);
  CHECK_THROWS_WITH(nd.ones({2, 2}) + x, ended);
  CHECK_THROWS_WITH(nd.dot(x, x), ended);
  CHECK_THROWS_WITH(x[0] + 1, ended);
  CHECK_THROWS_WITH(x += 1, ended);
  CHECK_THROWS_WITH(x.assign(0), ended);
  CHECK_THROWS_WITH(x.assign(nd.ones({2, 2})), ended);
  NDArray alive = nd.ones({2, 2});
  CHECK_THROWS_WITH(alive.assign(x), ended);
  CHECK_THROWS_WITH(x.copyto(alive), ended);
  CHECK_THROWS_WITH(x.slice_assign({0, 0}, {1, 1}, 1), ended);
  CHECK_THROWS_WITH(x.copy(), ended);
  CHECK_THROWS_WITH(x.astype(DType::float64), ended);
  CHECK_THROWS_WITH(x.as_in_context(cpu(1)), ended);
  CHECK_THROWS_WITH(x.sum(), ended);
  CHECK_THROWS_AS(x.attach_grad(), StateError);
  // an engine that comes later, perhaps to the same place, does not take them over
  Engine later({.threads = 1});
  EngineScope scope(later);
  CHECK_THROWS_WITH(x + 1, ended);
  CHECK(values(nd.array(values(x), x.shape()) + 1) == std::vector<float>{3, 5, 7, 9});
}

}  // namespace engines_test

// assign_all: several arrays written as one operation.
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace assign_all_test {

using namespace kaon;
using Catch::Contains;

TEST_CASE("assign_all: every array gets its value, of any dtype and size, views too", "[ops]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (DType dtype : {DType::float32, DType::float16, DType::int64, DType::boolean}) {
      const NDArray whole = nd.zeros({4, 2}, {.dtype = dtype}), empty = nd.zeros({0, 3}, {.dtype = dtype}),
                    scalar = nd.zeros(Shape(), {.dtype = dtype}),
                    other = nd.zeros({3}, {.dtype = dtype, .device = cpu(0)});
      const auto ones = [&](const Shape& s, Device d = cpu(0)) { return nd.ones(s, {.dtype = dtype, .device = d}); };
      const uint64_t before = engine.stats().ops;
      const std::vector<NDArray> values{ones({2, 2}), ones({0, 3}), ones(Shape()), ones({3})};
      engine.wait_all();
      const uint64_t made = engine.stats().ops;
      assign_all(std::vector{whole.slice(1, 3), empty, scalar, other}, values);
      engine.wait_all();
      CHECK(made > before);
      CHECK(engine.stats().ops == made + 1);
      CHECK(whole.asvector<double>() == std::vector<double>{0, 0, 1, 1, 1, 1, 0, 0});
      CHECK(scalar.asvector<double>() == std::vector<double>{1});
      CHECK(other.asvector<double>() == std::vector<double>{1, 1, 1});
      assign_all(std::vector{other}, std::vector{nd.zeros({3}, {.dtype = dtype, .device = cpu(1)})});
      CHECK(other.asvector<double>() == std::vector<double>{0, 0, 0});
    }
    assign_all(std::vector<NDArray>{}, std::vector<NDArray>{});
  }
}

TEST_CASE("assign_all: who reads all in one operation reads all old or all new values", "[ops]") {
  for (int threads : {1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::vector<NDArray> targets;
    for (int i = 0; i < 8; ++i) targets.push_back(nd.zeros({1000}));
    std::atomic<bool> ends = false;
    std::thread writer([&] {
      EngineScope own(engine);
      for (double value = 1; !ends; ++value) {
        std::vector<NDArray> values;
        for (int i = 0; i < 8; ++i) values.push_back(nd.full({1000}, value));
        assign_all(targets, values);
        engine.wait_all();
      }
    });
    for (int i = 0; i < 500; ++i) {
      const std::vector<float> all = nd.concat(targets, {.dim = 0}).asvector<float>();
      REQUIRE(std::set<float>(all.begin(), all.end()).size() == 1);
    }
    ends = true;
    writer.join();
  }
}

TEST_CASE("assign_all: what does not fit is said and nothing is written", "[ops]") {
  const NDArray a = nd.zeros({2}), b = nd.zeros({3}), one = nd.ones({2});
  CHECK_THROWS_WITH(assign_all(std::vector{a, b}, std::vector{one}),
                    Contains("a value for each of 2 arrays, got 1") && Contains("assign_all_test.cpp"));
  CHECK_THROWS_WITH(assign_all(std::vector{a, b}, std::vector{one, one}),
                    Contains("expected shape (3,), got (2,): array 1 of 2"));
  CHECK_THROWS_WITH(assign_all(std::vector{a}, std::vector{nd.ones({2}, {.dtype = DType::int32})}),
                    Contains("expected float32, got int32: array 0 of 1"));
  CHECK_THROWS_WITH(assign_all(std::vector{a, nd.zeros({2}, {.device = cpu(1)})}, std::vector{one, one}),
                    Contains("on several devices, cpu(0) and cpu(1)"));
  Engine other;
  NDArray elsewhere;
  {
    EngineScope scope(other);
    elsewhere = nd.ones({2});
    elsewhere.wait_to_read();
  }
  CHECK_THROWS_AS(assign_all(std::vector{a}, std::vector{elsewhere}), DeviceError);
  CHECK_THROWS_AS(assign_all(std::vector{a, elsewhere}, std::vector{one, one}), DeviceError);
  CHECK(a.asvector<double>() == std::vector<double>{0, 0});
}

TEST_CASE("assign_all: a failed value fails all, and the next one heals them", "[ops]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const NDArray a = nd.zeros({2}), b = nd.zeros({2}), good = nd.ones({2});
    NDArray bad = nd.zeros({2});
    engine.push({write(bad.node().buffer->var)}, [](RunContext&) { throw ValueError("no such value"); });
    assign_all(std::vector{a, b}, std::vector{good, bad});
    CHECK_THROWS_WITH(a.wait_to_read(), Contains("no such value"));
    CHECK_THROWS_WITH(b.wait_to_read(), Contains("no such value"));
    assign_all(std::vector{a, b}, std::vector{good, good});
    CHECK(a.asvector<double>() == std::vector<double>{1, 1});
    CHECK(b.asvector<double>() == std::vector<double>{1, 1});
  }
}

}  // namespace assign_all_test

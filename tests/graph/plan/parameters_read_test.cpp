// Plans whose parameters are read from call to call: whatever happens to the parameters, a call sees what it should.
#include <atomic>
#include <thread>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/tests/graph/support.h"

namespace parameters_read_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

// y = ((x + a) * b + c)
CachedGraph net(const HybridizeOptions& options = {}) {
  const Symbol x = sym.var("x");
  return CachedGraph((x + sym.var("a", {4})) * sym.var("b", {4}) + sym.var("c", {4}), {"x", "a", "b", "c"}, options,
                     "net");
}
NDArray filled(float value) { return nd.full({4}, value); }
float value_of(const NDArray& y) { return y.asvector<float>()[0]; }
bool stands_at(const NDArray& a) {
  Var& var = a.node().buffer->var;
  std::lock_guard lock(var);
  return var.has_read_leases();
}
constexpr int calls_enough = 8;  // more than a plan waits for

}  // namespace

TEST_CASE("parameters: read from call to call, until one is written") {
  CachedGraph graph = net({.static_alloc = true});
  NDArray a = filled(1), b = filled(2), c = filled(3);
  const NDArray x = filled(0);
  float expected_a = 1;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < calls_enough; ++i) CHECK(value_of(call(graph, {x, a, b, c})[0]) == expected_a * 2 + 3);
    CHECK(stands_at(a));
    CHECK(stands_at(c));
    CHECK_FALSE(stands_at(x));
    a += 1;
    expected_a += 1;
    CHECK(value_of(call(graph, {x, a, b, c})[0]) == expected_a * 2 + 3);
    CHECK_FALSE(stands_at(a));
    CHECK_FALSE(stands_at(c));
  }
}

TEST_CASE("parameters: a write after any number of calls is seen by all later ones and by no earlier one") {
  CachedGraph graph = net();
  NDArray a = filled(0), b = filled(1), c = filled(0);
  std::vector<NDArray> results;
  std::vector<float> expected;
  float value = 0;
  for (int between = 1; between <= 12; ++between) {
    for (int i = 0; i < between; ++i) {
      results.push_back(call(graph, {filled(float(i)), a, b, c})[0]);  // nothing is waited for
      expected.push_back(float(i) + value);
    }
    c += 1;
    value += 1;
  }
  for (size_t i = 0; i < results.size(); ++i) CHECK(value_of(results[i]) == expected[i]);
}

TEST_CASE("parameters: others in their place, and the same array twice") {
  CachedGraph graph = net();
  const NDArray x = filled(1);
  NDArray a = filled(1), b = filled(2), c = filled(3);
  for (int i = 0; i < calls_enough; ++i) CHECK(value_of(call(graph, {x, a, b, c})[0]) == 7);
  REQUIRE(stands_at(b));
  NDArray other = filled(5);
  CHECK(value_of(call(graph, {x, a, other, c})[0]) == 13);
  CHECK_FALSE(stands_at(b));
  CHECK(b.node().use_count() == 1);  // nobody holds what is not used any more
  for (int i = 0; i < calls_enough; ++i) CHECK(value_of(call(graph, {x, a, a, x})[0]) == 3);
  CHECK(stands_at(a));
  a *= 2;
  CHECK(value_of(call(graph, {x, a, a, x})[0]) == 7);
}

TEST_CASE("parameters: nobody holds the old ones after a cast and a call") {
  CachedGraph graph = net();
  NDArray a = filled(1), b = filled(2), c = filled(3);
  for (int i = 0; i < calls_enough; ++i) CHECK(value_of(call(graph, {filled(1), a, b, c})[0]) == 7);
  REQUIRE(stands_at(a));
  auto wide = [](const NDArray& x) { return x.astype(DType::float64); };
  const NDArray y = call(graph, {wide(filled(1)), wide(a), wide(b), wide(c)})[0];
  CHECK(y.asvector<double>()[0] == 7);
  nd.waitall();
  CHECK_FALSE(stands_at(a));
  CHECK(a.node().use_count() == 1);
}

TEST_CASE("parameters: let go of when the graph goes, with calls pending") {
  NDArray a = filled(1), b = filled(2), c = filled(3), y;
  {
    CachedGraph graph = net();
    for (int i = 0; i < calls_enough; ++i) y = call(graph, {filled(1), a, b, c})[0];
  }
  CHECK(value_of(y) == 7);
  nd.waitall();
  CHECK_FALSE(stands_at(a));
  CHECK(a.node().use_count() == 1);
}

TEST_CASE("parameters: a failed one fails the calls, and a written one heals them") {
  CachedGraph graph = net();
  const NDArray x = filled(1);
  NDArray a = filled(1), b = filled(2), c = filled(3);
  for (int i = 0; i < calls_enough; ++i) call(graph, {x, a, b, c});
  Engine::current().push({write(a.node().buffer->var)}, [](RunContext&) { throw Error("planted"); });
  for (int i = 0; i < calls_enough; ++i) {
    const NDArray y = call(graph, {x, a, b, c})[0];
    CHECK_THROWS_WITH(y.wait_to_read(), Catch::Matchers::Contains("planted"));
  }
  CHECK_FALSE(stands_at(b));
  a.assign(4.0);
  for (int i = 0; i < calls_enough; ++i) CHECK(value_of(call(graph, {x, a, b, c})[0]) == 13);
  CHECK(stands_at(b));
}

TEST_CASE("parameters: threads call while others write: every result is of one moment") {
  CachedGraph graph = net({.static_alloc = true});
  NDArray a = filled(0), b = filled(1), c = filled(0);
  const NDArray x = filled(0);
  std::atomic<int> wrong{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      float last = 0;
      while (!ends) {
        const float y = value_of(call(graph, {x, a, b, c})[0]);
        if (y < last || y != float(int(y))) ++wrong;  // what was seen once stays so
        last = y;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    (i % 2 ? a : c) += 1;
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  nd.waitall();
  const float after = value_of(call(graph, {x, a, b, c})[0]);
  ends = true;
  for (std::thread& t : threads) t.join();
  CHECK(after == 200);
  CHECK(wrong == 0);
}

}  // namespace parameters_read_test

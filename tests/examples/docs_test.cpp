// The pieces of code that the pages under docs/ show. A test of the pages compares them: change both.
#include <kaon/kaon.h>

#include <catch2/catch.hpp>

#include <fstream>

#include "kaon/engine/storage.h"
#include "kaon/tests/support/files.h"

namespace docs_test {

using namespace kaon;
using namespace kaon::gluon;

TEST_CASE("docs: timing", "[docs]") {
  test::ScratchFolder folder;
  std::filesystem::current_path(folder / "");
  NDArray x = nd.random_normal({64, 64});
  {
    nd.waitall();
    const auto begin = std::chrono::steady_clock::now();
    NDArray y = nd.dot(x, x);  // pushed
    nd.waitall();              // done
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    CHECK(seconds > 0);
  }
  nn::Dense net(8);
  net.initialize();
  {
    NDArray y;
    const double all = time_all([&] {
      for (int i = 0; i < 100; ++i) y = net(x);
    });
    const double seconds = all / 100;
    CHECK(seconds > 0);
  }
  Profiler& profiler = Engine::current().profiler();
  profiler.start();
  net(x).wait_to_read();
  profiler.stop();
  profiler.write("trace.json");
  CHECK(test::bytes_of("trace.json").find("FullyConnected") != std::string::npos);
  std::filesystem::current_path(std::filesystem::temp_directory_path());
}

TEST_CASE("docs: errors", "[docs]") {
  {
    NDArray a = nd.ones({2, 3}), b = nd.ones({2, 3});
    CHECK_THROWS_AS(nd.dot(a, b), ShapeError);
  }
  {
    NDArray table = nd.ones({2, 3});
    NDArray row = nd.take(table, nd.array({7}), {.mode = IndexMode::raise});  // pushed: no error yet
    NDArray after = row * 2;
    CHECK_THROWS_AS(after.asvector<float>(), IndexError);
    CHECK_THROWS_AS(after.asvector<float>(), IndexError);  // again
    CHECK(table.sum().asscalar<float>() == 6);             // not affected
    after.assign(0);
    CHECK_NOTHROW(after.wait_to_read());  // overwritten
    CHECK_THROWS_WITH(row.wait_to_read(), Catch::Matchers::Contains("docs_test.cpp:"));
  }
  NDArray first = nd.random_normal({2}, {.scale = -1}), second = nd.random_normal({2}, {.scale = -2});
  try {
    nd.waitall();
  } catch (const AggregateError& e) {
    CHECK(e.errors().size() == 2);
  }
  CHECK_NOTHROW(nd.waitall());
  CHECK_THROWS_AS(first.wait_to_read(), ValueError);

  set_checks({.nan = true, .indices = true});
  CHECK_THROWS_AS(nd.log(nd.array({1, -1})).wait_to_read(), ValueError);
  CHECK_THROWS_AS(nd.pick(nd.ones({2, 3}), nd.array({0, 3})).wait_to_read(), IndexError);
  set_checks({});
  CHECK(nd.pick(nd.ones({2, 3}), nd.array({0, 3})).sum().asscalar<float>() == 2);
}

TEST_CASE("docs: memory", "[docs]") {
  Engine engine({.max_in_flight = 256, .max_bytes = 256 << 20});
  EngineScope scope(engine);
  {
    EngineScope part = scope.with_budget(64 << 20);  // inside the engine's limit
    NDArray x = nd.ones({1024, 1024});
    CHECK(part.used_bytes() == 4 << 20);
  }
  NDArray x = nd.ones({8, 8});
  std::stop_source stop;
  NDArray result;
  {
    EngineScope request = scope.with_budget(0, stop.get_token());  // 0: no limit of bytes
    result = nd.dot(x, x);
  }
  stop.request_stop();
  CHECK_NOTHROW(nd.waitall());

  test::ScratchFolder folder;
  std::filesystem::current_path(folder / "");
  nn::HybridSequential net(nn::Dense(8), nn::LayerNorm(), nn::Dense(4));
  net.initialize();
  {
    net.hybridize({.static_alloc = true});
    net(x).wait_to_read();
    std::ofstream("plan.svg") << net.plan()->svg();
  }
  CHECK(test::bytes_of("plan.svg").find("class='value'") != std::string::npos);
  std::filesystem::current_path(std::filesystem::temp_directory_path());

  Storage::cpu().set_limit(Storage::cpu().stats().live + (64 << 20));
  NDArray large = nd.ones({32 << 20});  // 128 MiB
  CHECK_THROWS_AS(large.wait_to_read(), MemoryError);
  NDArray small = nd.ones({8 << 20});  // 32 MiB
  CHECK_NOTHROW(small.wait_to_read());
  Storage::cpu().set_limit(0);
}

}  // namespace docs_test

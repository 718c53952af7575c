// Loaders whose workers get no memory to begin or to wait.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <exception>

#include "harness.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/engine/support.h"

namespace loader_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::test;

namespace {

Dataset values(int64_t size) {
  return Dataset(size, [](int64_t i) { return Sample(HostTensor(Shape(2), std::vector<float>{float(i), 1})); });
}

Results read_all(const DataLoader& loader) {
  Results all;
  for (auto& batch : loader.sync()) {
    const Results values = (batch.data * 2).asvector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::atomic<int> g_unobserved{0};

// Counts the tasks that nobody awaits and that fail, in place of the text on stderr.
struct CountUnobserved {
  CountUnobserved() {
    g_unobserved = 0;
    // so much in it that a copy would take memory
    set_unobserved_error_hook([large = std::array<char, 64>{}](std::exception_ptr) { g_unobserved += 1 + large[0]; });
  }
  ~CountUnobserved() { set_unobserved_error_hook({}); }
};

// Where an engine has as many operations as it may, every await of a coroutine first waits for room, which takes
// memory.
void check_at_limit(int most) {
  const CountUnobserved count;
  for (const int threads : {1, 2}) {
    Engine engine({.threads = threads, .max_in_flight = 1});
    EngineScope scope(engine);
    survives("a loader at the engine's limit",
             [] { return read_all(DataLoader(values(11), {.batch_size = 2, .workers = 2, .prefetch = 2})); },
             {.most = most});
  }
}

}  // namespace

TEST_CASE("faults: a loader none of whose workers could begin throws MemoryError", "[faults]") {
  const CountUnobserved count;
  Watchdog watchdog;
  Engine engine({.threads = 1, .io_threads = 1, .max_in_flight = 1});
  EngineScope scope(engine);
  const DataLoader loader(values(6), {.batch_size = 2, .workers = 2});
  Gate gate;
  Var var;
  engine.push({write(var)}, [&](RunContext&) { gate.wait(); });  // at the limit until the gate opens
  engine.post_io([] { lose_memory_of_this_thread(); });
  {
    auto batches = loader.batches();
    REQUIRE(becomes_true([] { return g_unobserved == 2; }));
    every_thread_has_memory();
    gate.open();
    auto take = [](AsyncGenerator<Batch>& batches) -> Task<void> { co_await batches.next(); };
    CHECK_THROWS_AS(sync_wait(take(batches)), MemoryError);
  }
  engine.wait(var);
  CHECK(read_all(loader) == Results{0, 2, 2, 2, 4, 2, 6, 2, 8, 2, 10, 2});
}

TEST_CASE("faults: a loader at the engine's limit bears that an allocation fails", "[faults]") { check_at_limit(60); }
TEST_CASE("faults: a loader at the engine's limit bears that any allocation fails", "[faults][slow]") {
  check_at_limit(0);
}

}  // namespace loader_test

// The engine is asynchronous: a push never waits for an operation.
#include <atomic>

#include "kaon/tests/engine/support.h"

namespace latch_test {

using namespace kaon;
using namespace kaon::test;

// Not in serial mode, where a push runs the operation by definition: there the blocked one would never return.
TEST_CASE("engine: pushes return and independent operations finish while one is blocked", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    const bool spare_thread = engine.stats().threads > 1;
    Gate gate;
    Var blocked;
    std::atomic<int> dependents{0};
    std::atomic<int> independents{0};
    std::atomic<int> wrong_order{0};
    engine.push({write(blocked)}, [&](RunContext&) { gate.wait(); });
    for (int i = 0; i < 100; ++i) {
      engine.push({update(blocked)}, [&, i](RunContext&) { wrong_order += dependents++ != i; });
      engine.push({}, [&](RunContext&) { ++independents; });
    }
    // 201 pushes have returned. The only thread of a one-thread engine is blocked; with more, independents go on.
    CHECK(engine.stats().ops == 201);
    if (spare_thread) CHECK(becomes_true([&] { return independents == 100; }));
    CHECK(dependents == 0);
    gate.open();
    engine.wait_all();
    CHECK(dependents == 100);
    CHECK(independents == 100);
    CHECK(wrong_order == 0);
  });
}

TEST_CASE("engine: reads of a blocked var do not hold up its later readers elsewhere", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    Gate gate;
    Var shared, out_a, out_b;
    std::atomic<bool> other_ran{false};
    engine.push({read(shared), write(out_a)}, [&](RunContext&) { gate.wait(); });
    engine.push({read(shared), write(out_b)}, [&](RunContext&) { other_ran = true; });
    CHECK(becomes_true([&] { return other_ran.load(); }));
    gate.open();
    engine.wait_all();
  });
}

TEST_CASE("engine: time_all measures the work, not the push", "[engine][async]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    double pushing = 0;
    double all = time_all([&] {
      auto start = Clock::now();
      engine.push({write(v)}, [](RunContext&) { std::this_thread::sleep_for(50ms); });
      pushing = std::chrono::duration<double>(Clock::now() - start).count();
    });
    CHECK(all >= 0.050);
    if (engine.stats().threads > 0) CHECK(pushing < 0.040);
  });
}

}  // namespace latch_test

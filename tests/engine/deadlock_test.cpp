// Waits inside operations that nobody could end: they throw WouldDeadlock. Those that only take long do not.
#include <atomic>
#include <thread>
#include <vector>

#include "kaon/engine/task.h"
#include "support.h"

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

TEST_CASE("users row 39: an operation that waits for what it writes is told so", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var own, other;
    engine.push({write(own), read(other)}, [&](RunContext&) { engine.wait(own); }, {.label = {.name = "selfish"}});
    CHECK_THROWS_AS(engine.wait(own), WouldDeadlock);
    CHECK_THROWS_WITH(engine.wait(own), Contains("selfish") && Contains("deadlock_test.cpp"));
    engine.push({read(other), write(own)}, [&](RunContext&) { engine.wait(other, AccessMode::write); });
    CHECK_THROWS_AS(engine.wait(own), WouldDeadlock);
    engine.push({write(own)}, [&](RunContext&) { engine.wait_all(); }, {.label = {.name = "impatient"}});
    CHECK_THROWS_AS(engine.wait(own), WouldDeadlock);
    CHECK_THROWS_WITH(engine.wait(own), Contains("impatient"));
    CHECK_NOTHROW(engine.wait_all());
  });
}

namespace {
// Writes a and waits for b, which is written by an operation that reads a.
void push_cycle(Engine& engine, Var& a, Var& b) {
  engine.push({write(a)},
              [&](RunContext&) {
                engine.push({read(a), write(b)}, [](RunContext&) {});
                engine.wait(b);
              },
              {.label = {.name = "circular"}});
}
}  // namespace

TEST_CASE("users row 39: a wait for an operation that needs this one's result is told so", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b;
    auto start = Clock::now();
    push_cycle(engine, a, b);
    CHECK_THROWS_AS(engine.wait(a), WouldDeadlock);
    CHECK(Clock::now() - start < (sanitized ? 10s : 3s));
    CHECK_THROWS_WITH(engine.wait(a), Contains("[circular]") && Contains("deadlock_test.cpp"));
    CHECK_THROWS_AS(engine.wait(b), WouldDeadlock);  // inherited
    CHECK_NOTHROW(engine.wait_all());
    int count = 0;
    for (int i = 0; i < 100; ++i) engine.push({write(a), update(b)}, [&](RunContext&) { ++count; });
    CHECK_THROWS_AS(engine.wait(b), WouldDeadlock);
    engine.push({write(a), write(b)}, [&](RunContext&) { ++count; });
    CHECK_NOTHROW(engine.wait(b));
    engine.wait_all();  // before the vars go
    CHECK(count == 1);
  });
}

TEST_CASE("users row 39: several operations that wait for each other are told so", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    const int n = engine.stats().threads;
    std::vector<Var> vars(static_cast<size_t>(n)), behind(static_cast<size_t>(n));
    std::atomic<int> running{0};
    Gate all_pushed;
    for (size_t i = 0; i < size_t(n); ++i) {
      engine.push({write(vars[i])},
                  [&, i, n](RunContext&) {
                    ++running;
                    all_pushed.wait();
                    engine.wait(behind[(i + 1) % size_t(n)]);
                  },
                  {.label = {.name = "ring"}});
    }
    for (size_t i = 0; i < size_t(n); ++i) engine.push({read(vars[i]), write(behind[i])}, [](RunContext&) {});
    REQUIRE(becomes_true([&] { return running == n; }));
    all_pushed.open();
    int told = 0;
    for (Var& v : vars) {
      try {
        engine.wait(v);
      } catch (const WouldDeadlock&) {
        ++told;
      }
    }
    CHECK(told > 0);
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 39: a long wait is no deadlock", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Var outer, slow, timer, late;
    Gate begun;
    std::atomic<int> value{0};
    // another thread runs it, or this one while it waits
    engine.push({write(slow)}, [&](RunContext&) {
      std::this_thread::sleep_for(600ms);
      value += 1;
    });
    push_task(engine, {write(timer)}, [&]() -> Task<void> {
      co_await sleep_for(600ms);
      value += 10;
    });
    engine.push({write(outer)}, [&](RunContext&) {
      begun.open();
      engine.wait(slow);
      engine.wait(timer);
      value += 100;
    });
    begun.wait();
    CHECK_NOTHROW(engine.wait(outer));
    CHECK(value == 111);

    // what the operation waits for is itself behind a long chain of short ones, under load from elsewhere
    std::atomic<bool> end{false};
    std::thread load([&] {
      while (!end) {
        engine.push({}, [](RunContext&) { spin_for(20us); });
        std::this_thread::sleep_for(50us);
      }
    });
    for (int i = 0; i < 3; ++i) {
      engine.push({write(outer)}, [&](RunContext&) {
        push_task(engine, {write(late)}, []() -> Task<void> { co_await sleep_for(300ms); });
        for (int k = 0; k < 200; ++k) engine.push({update(late)}, [](RunContext&) { spin_for(1us); });
        engine.wait(late);
      });
      CHECK_NOTHROW(engine.wait(outer));
    }
    end = true;
    load.join();
    engine.wait_all();
  });
}

TEST_CASE("users row 39: in serial mode another thread's long operation is no deadlock", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 0});
  Var slow, outer;
  Gate begun;
  std::thread other([&] {
    engine.push({write(slow)}, [&](RunContext&) {
      begun.open();
      std::this_thread::sleep_for(600ms);
    });
  });
  begun.wait();
  engine.push({write(outer)}, [&](RunContext&) { engine.wait(slow); });
  CHECK_NOTHROW(engine.wait(outer));
  other.join();
}

// Waits inside operations that nobody could end: they throw WouldDeadlock. Those that only take long do not.
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/task.h"
#include "kaon/engine/when.h"
#include "kaon/tests/engine/support.h"

namespace deadlock_test {

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
    push_cycle(engine, a, b);
    CHECK_THROWS_AS(engine.wait(a), WouldDeadlock);
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

TEST_CASE("users row 39: a read on the spot that takes long is no deadlock", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Var x, outer;
    bool written = false;
    CHECK(engine.read_now(x, [&] {
      engine.push({write(x)}, [&](RunContext&) { written = true; });
      engine.push({write(outer)}, [&](RunContext&) { engine.wait(x); });
      std::this_thread::sleep_for(600ms);
      CHECK_FALSE(written);
    }));
    CHECK_NOTHROW(engine.wait(outer));
    CHECK(written);
    engine.wait_all();
  });
}

TEST_CASE("users row 39: an operation that runs long, also one that a waiting one has taken up, is no deadlock",
          "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Var first, second, third;
    Cell slow(engine);
    // all that run wait for `slow`; whoever of them has a thread to spare runs it
    engine.push({write(slow.var())}, [slow](RunContext&) {
      std::this_thread::sleep_for(600ms);
      slow.value() = 1;
    });
    engine.push({write(first)}, [&](RunContext&) { engine.wait(slow.var()); });
    engine.push({write(second)}, [&, slow](RunContext&) {
      auto read_it = [](Cell slow) -> Task<double> { co_return (co_await slow).value(); };
      if (sync_wait(read_it(slow)) != 1) throw ValueError("[second] too early");
    });
    push_task(engine, {write(third)}, [slow]() -> Task<void> {
      Cell ready = co_await slow;
      if (ready.value() != 1) throw ValueError("[third] too early");
    });
    for (Var* v : {&first, &second, &third}) CHECK_NOTHROW(engine.wait(*v));
    engine.wait_all();
  });
}

namespace {

// What an operation's body does to wait for an array.
enum class Way { blocks, awaits, awaits_later, both };

Task<void> wait_as_task(Cell cell, Way way) {
  if (way == Way::awaits_later) co_await sleep_for(100us);
  if (way == Way::both) {
    std::vector<Task<void>> tasks;
    tasks.push_back(wait_as_task(cell, Way::awaits));
    tasks.push_back(wait_as_task(cell, Way::awaits_later));
    co_await when_all(std::move(tasks));
  } else if (way == Way::blocks) {
    cell.engine().wait(cell.var());
  } else {
    co_await cell;
  }
}

// An operation that writes `target` and waits for `cell` in its body, a coroutine or a function.
void push_waiting(Engine& engine, Var& target, const Cell& cell, Way way, bool is_task,
                  const OpLabel& label = {.name = "waiting"}) {
  if (is_task) {
    push_task(engine, {write(target)}, [cell, way]() -> Task<void> { return wait_as_task(cell, way); },
              {.label = label});
  } else {
    engine.push({write(target)},
                [cell, way](RunContext&) {
                  if (way == Way::blocks) cell.engine().wait(cell.var());
                  else sync_wait(wait_as_task(cell, way));
                },
                {.label = label});
  }
}

// Calls `push` while nothing that accesses `var` begins: so all that it pushes is in the queues first, in serial mode
// too.
template <class F>
void push_behind(Engine& engine, Var& var, F push) {
  Var done;
  engine.push({write(var), write(done)}, [push](RunContext&) { push(); });
  engine.wait(done, AccessMode::write);
}

constexpr Way all_ways[] = {Way::blocks, Way::awaits, Way::awaits_later, Way::both};

// Each takes a quarter of a second to be found: all ways on some engines, one on all.
bool is_tried(const Engine& engine, Way way) {
  return way == Way::awaits_later || engine.stats().threads == 0 || engine.stats().threads == 2;
}

}  // namespace

TEST_CASE("users row 39: whatever way an operation waits for what it writes, it is told so", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (bool is_task : {false, true}) {
      for (Way way : all_ways) {
        Cell own(engine);
        push_waiting(engine, own.var(), own, way, is_task);
        CHECK_THROWS_AS(engine.wait(own.var()), WouldDeadlock);
        CHECK_THROWS_WITH(engine.wait(own.var()), Contains("[waiting]") && Contains("deadlock_test.cpp"));
        CHECK_NOTHROW(engine.wait_all());
      }
    }
  });
}

TEST_CASE("users row 39: whatever way an operation waits for what needs its end, it is told so", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (bool is_task : {false, true}) {
      for (Way way : all_ways) {
        if (!is_tried(engine, way)) continue;
        INFO((is_task ? "coroutine, way " : "function, way ") << int(way));
        Cell own(engine), behind(engine);
        push_behind(engine, own.var(), [&] {
          push_waiting(engine, own.var(), behind, way, is_task);
          engine.push({read(own.var()), write(behind.var())}, [](RunContext&) {});
        });
        CHECK_THROWS_AS(engine.wait(own.var()), WouldDeadlock);
        CHECK_THROWS_WITH(engine.wait(own.var()), Contains("[waiting]") && Contains("deadlock_test.cpp"));
        CHECK_THROWS_AS(engine.wait(behind.var()), WouldDeadlock);  // inherited
        CHECK_NOTHROW(engine.wait_all());
        // the engine goes on
        push_waiting(engine, behind.var(), Cell(engine), way, is_task);
        CHECK_NOTHROW(engine.wait(behind.var()));
      }
    }
  });
}

TEST_CASE("users row 39: operations of all kinds that wait for each other are told so", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (bool first_is_task : {false, true}) {
      for (Way way : all_ways) {
        if (!is_tried(engine, way)) continue;
        Cell a(engine), b(engine), behind_a(engine), behind_b(engine);
        // each waits for what needs the other's end; with one thread the first takes the second up
        push_behind(engine, a.var(), [&] {
          push_behind(engine, b.var(), [&] {
            push_waiting(engine, a.var(), behind_b, way, first_is_task);
            push_waiting(engine, b.var(), behind_a, Way::awaits_later, true);
            engine.push({read(a.var()), write(behind_a.var())}, [](RunContext&) {});
            engine.push({read(b.var()), write(behind_b.var())}, [](RunContext&) {});
          });
        });
        int told = 0;
        for (const Cell& c : {a, b}) {
          try {
            engine.wait(c.var());
          } catch (const WouldDeadlock&) {
            ++told;
          }
        }
        CHECK(told > 0);
        CHECK_NOTHROW(engine.wait_all());
      }
    }
  });
}

TEST_CASE("users row 39: the message names both when an operation waits for what another one holds below it",
          "[engine]") {
  at_thread_counts([](Engine& engine) {
    if (engine.stats().threads > 1) return;  // there others take the inner one up
    Var held, other, inner;
    int inner_line = 0, outer_line = __LINE__ + 1;
    engine.push({write(held)},
                [&](RunContext&) {
                  inner_line = __LINE__ + 1;
                  engine.push({write(other)}, [&](RunContext&) { engine.wait(held); }, {.label = {.name = "inner"}});
                  try {
                    engine.wait(other);
                  } catch (const WouldDeadlock&) {  // of the inner one; the outer one ends well
                  }
                },
                {.label = {.name = "outer"}});
    CHECK_NOTHROW(engine.wait(held));
    CHECK_THROWS_AS(engine.wait(other), WouldDeadlock);
    std::string text;
    try {
      engine.wait(other);
    } catch (const WouldDeadlock& e) {
      text = e.what();
    }
    CHECK_THAT(text, Contains("[inner], pushed at deadlock_test.cpp:" + std::to_string(inner_line)));
    CHECK_THAT(text, Contains("[outer], pushed at deadlock_test.cpp:"));
    CHECK(text.find("[outer]") < text.find("[inner]"));
    CHECK_THAT(text, !Contains("holds itself"));
    CHECK(outer_line < inner_line);
    engine.wait_all();
  });
}

namespace {
Task<void> read_twice(Cell cell, std::atomic<bool>& ended) {
  co_await sleep_for(1ms);
  co_await cell;
  co_await cell;  // after the operation's end
  ended = true;
}
Task<void> nap(std::chrono::milliseconds time) { co_await sleep_for(time); }
// Which of the two ends first goes to `own`.
Task<void> race(Cell own, Cell behind, std::atomic<bool>& reader_ended, std::chrono::milliseconds time) {
  std::vector<Task<void>> tasks;
  tasks.push_back(read_twice(behind, reader_ended));
  tasks.push_back(nap(time));
  auto first = co_await when_any(std::move(tasks));
  own.value() = double(first.first);
}
}  // namespace

TEST_CASE("users row 39: in when_any a wait for what needs the operation's end loses, and is no deadlock", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (int round = 0; round < 2; ++round) {
      Cell own(engine), behind(engine);
      std::atomic<bool> loser_ended{false};
      push_behind(engine, own.var(), [&] {
        auto body = [&loser_ended, own, behind, round] { return race(own, behind, loser_ended, round ? 5ms : 400ms); };
        push_task(engine, {write(own.var())}, body);
        engine.push({read(own.var()), write(behind.var())}, [](RunContext&) {});
      });
      CHECK_NOTHROW(engine.wait(own.var()));
      CHECK(own.value() == 1);
      engine.wait_all();
      CHECK(becomes_true([&] { return loser_ended.load(); }));
    }
  });
}

TEST_CASE("users row 39: a piece of an operation that waits for what the operation writes is told so", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    Var own;
    std::latch both(2);
    std::atomic<int> told{0};
    engine.push({write(own)}, [&](RunContext& run) {
      run.parallel_for(2, 1, [&](int64_t, int64_t) {
        both.arrive_and_wait();  // so one of them runs on another worker
        try {
          engine.wait(own);
        } catch (const WouldDeadlock&) {
          ++told;
        }
      });
    });
    CHECK(becomes_true([&] { return told == 2; }));  // without helping, which would leave no worker idle
    CHECK_NOTHROW(engine.wait(own));
  });
}

}  // namespace deadlock_test

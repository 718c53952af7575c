// Operations whose bodies are coroutines: they hold no worker while they wait.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "kaon/engine/task.h"
#include "support.h"

namespace push_task_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Task<void> sleep_and_count(std::chrono::microseconds time, std::atomic<int>& count) {
  co_await sleep_for(time);
  ++count;
}

}  // namespace

TEST_CASE("push_task: 1,000 operations wait for timers on one worker", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  std::atomic<int> begun{0}, ended{0};
  Gate gate;
  Cell opened(engine);
  engine.push({write(opened.var())}, [&](RunContext&) { gate.wait(); });  // holds the only worker until all are pushed
  std::vector<Var> vars(1000);
  for (Var& v : vars) {
    push_task(engine, {write(v)}, [&]() -> Task<void> {
      ++begun;
      co_await sleep_for(50ms);
      ++ended;
    });
  }
  gate.open();
  REQUIRE(becomes_true([&] { return begun == 1000; }));  // one after the other they would take 50 s
  bool free = false;                                     // the worker has nothing to do meanwhile
  Var v;
  engine.push({write(v)}, [&](RunContext&) { free = true; });
  engine.wait(v);
  CHECK(free);
  engine.wait_all();
  CHECK(ended == 1000);
  CHECK(engine.stats().completed == 1002);
}

TEST_CASE("push_task: all are pending at once while what they wait for is not written", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 2});
  Gate gate;
  Cell late(engine);
  std::atomic<int> begun{0}, ended{0};
  engine.push({write(late.var())}, [&, late](RunContext&) {
    gate.wait();
    late.value() = 3;
  });
  for (int i = 0; i < 1000; ++i) {
    push_task(engine, {}, [&, late]() -> Task<void> {
      ++begun;
      Cell ready = co_await late;
      ended += int(ready.value());
    });
  }
  CHECK(becomes_true([&] { return begun == 1000; }));
  CHECK(ended == 0);
  gate.open();
  engine.wait_all();
  CHECK(ended == 3000);
}

TEST_CASE("push_task: more than the engine's limit at once do not wait for each other", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     auto produce = [](Engine& engine, std::atomic<int>& ended) -> Task<void> {
                       for (int i = 0; i < 300; ++i) {  // a Task pushes beyond the limit without blocking
                         push_task(engine, {}, [&ended]() -> Task<void> {
                           co_await sleep_for(100us);
                           co_await sleep_and_count(100us, ended);
                         });
                       }
                       co_await engine.idle();
                     };
                     std::atomic<int> ended{0};
                     sync_wait(produce(engine, ended));
                     CHECK(ended == 300);
                   },
                   {.max_in_flight = 16});
}

TEST_CASE("push_task: in order with other operations on the same arrays", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v, w;
    std::vector<int> order;
    for (int i = 0; i < 100; ++i) {
      if (i % 3 == 0) {
        engine.push({update(v)}, [&order, i](RunContext&) { order.push_back(i); });
      } else {
        push_task(engine, {update(v)}, [&order, i]() -> Task<void> {
          if (i % 3 == 1) co_await sleep_for(50us);
          order.push_back(i);
        });
      }
      if (i % 10 == 5) engine.push({read(v), write(w)}, [](RunContext&) {});
    }
    engine.wait(v, AccessMode::write);
    CHECK(order.size() == 100);
    CHECK(std::is_sorted(order.begin(), order.end()));
    engine.wait_all();
  });
}

TEST_CASE("push_task: a long chain pushed by an operation takes no stack", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var held;
    int runs = 0;
    engine.push({write(held)}, [&](RunContext&) {
      for (int i = 0; i < rounds(20000); ++i) {
        push_task(engine, {update(held)}, [&runs]() -> Task<void> {
          ++runs;
          co_return;
        });
      }
    });
    engine.wait_all();
    CHECK(runs == rounds(20000));
  });
}

TEST_CASE("push_task: a failure fails what it writes and says where it was pushed", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (bool later : {false, true}) {
      Var a, b;
      const int line = __LINE__ + 1;
      const PushOptions options{.label = {.name = "read_file", .block_path = "loader"}};
      push_task(
          engine, {write(a)},
          [later]() -> Task<void> {
            if (later) co_await sleep_for(100us);
            throw ShapeError("[read_file] wrong shape");
          },
          options);
      bool ran = false;
      push_task(engine, {read(a), write(b)}, [&ran]() -> Task<void> {
        ran = true;
        co_return;
      });
      CHECK_THROWS_AS(engine.wait(b), ShapeError);
      CHECK_THROWS_WITH(engine.wait(a), Contains("[read_file] wrong shape") && Contains("in loader") &&
                                            Contains("push_task_test.cpp:" + std::to_string(line)));
      CHECK_FALSE(ran);
      CHECK_NOTHROW(engine.wait_all());
      push_task(engine, {write(a)}, []() -> Task<void> { co_return; });
      CHECK_NOTHROW(engine.wait(a));
      CHECK_THROWS_AS(engine.wait(b), ShapeError);
      // a body that fails before it gives its Task
      push_task(engine, {write(a)}, []() -> Task<void> { throw ValueError("[make] no task"); });
      CHECK_THROWS_WITH(engine.wait(a), Contains("[make] no task"));
      engine.push({write(a), write(b)}, [](RunContext&) {});
      engine.wait_all();
    }
    CHECK(engine.stats().failed == 4);
  });
}

TEST_CASE("users row 39: an operation's coroutine that awaits itself is told so", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (bool later : {false, true}) {
      Cell own(engine), input(engine);
      push_task(engine, {write(own.var())},
                [own, later]() -> Task<void> {
                  if (later) co_await sleep_for(100us);
                  co_await own;
                },
                {.label = {.name = "selfish"}});
      CHECK_THROWS_AS(engine.wait(own.var()), WouldDeadlock);
      CHECK_THROWS_WITH(engine.wait(own.var()), Contains("[selfish]") && Contains("push_task_test.cpp"));
      push_task(engine, {write(own.var())},
                [&engine, later]() -> Task<void> {
                  if (later) co_await sleep_for(100us);
                  co_await engine.idle();
                },
                {.label = {.name = "impatient"}});
      CHECK_THROWS_AS(engine.wait(own.var()), WouldDeadlock);
      CHECK_THROWS_WITH(engine.wait(own.var()), Contains("[impatient]"));
      for (bool all : {false, true}) {
        push_task(engine, {write(own.var())}, [&engine, own, later, all]() -> Task<void> {
          if (later) co_await sleep_for(100us);
          all ? engine.wait_all() : engine.wait(own.var());
        });
        CHECK_THROWS_AS(engine.wait(own.var()), WouldDeadlock);
      }
      // what it reads is ready, also with a write behind it
      push_task(engine, {read(input.var()), write(own.var())}, [own, input, later]() -> Task<void> {
        if (later) co_await sleep_for(100us);
        co_await input;
        own.value() = 7;
      });
      engine.push({write(input.var())}, [](RunContext&) {});
      CHECK_NOTHROW(engine.wait(own.var()));
      CHECK(own.value() == 7);
      CHECK_NOTHROW(engine.wait_all());
    }
  });
}

TEST_CASE("push_task: pushes and awaits other work", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Cell result(engine);
    for (int round = 0; round < 20; ++round) {
      push_task(engine, {write(result.var())}, [&engine, result, round]() -> Task<void> {
        Cell inner(engine);
        engine.push({write(inner.var())}, [inner, round](RunContext&) { inner.value() = round; });
        co_await inner;
        co_await sleep_for(20us);
        push_task(engine, {update(inner.var())}, [inner]() -> Task<void> {
          co_await sleep_for(20us);
          inner.value() += 100;
        });
        co_await inner;
        result.value() = inner.value();
      });
      engine.wait(result.var());
      REQUIRE(result.value() == 100 + round);
    }
    engine.wait_all();
  });
}

TEST_CASE("users row 48: an operation's coroutine of a stopped scope never begins", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::stop_source source;
    Cell cell(engine);
    bool began = false;
    auto token = std::make_shared<int>();
    {
      EngineScope scope(engine);
      EngineScope stoppable = scope.with_budget(0, source.get_token());
      source.request_stop();
      push_task(engine, {write(cell.var())}, [&began, token]() -> Task<void> {
        began = true;
        co_return;
      });
    }
    CHECK_THROWS_AS(engine.wait(cell.var()), Cancelled);
    CHECK_NOTHROW(engine.wait_all());
    CHECK_FALSE(began);
    CHECK(token.use_count() == 1);
  });
}

TEST_CASE("push_task: an engine that ends finishes what is pending", "[engine]") {
  for (int threads : {0, 1, 2}) {
    Watchdog watchdog;
    std::atomic<int> ended{0};
    std::vector<Var> vars(50);
    {
      Engine engine({.threads = threads});
      for (Var& v : vars) {
        push_task(engine, {write(v)}, [&ended]() -> Task<void> { return sleep_and_count(2ms, ended); });
        engine.push({read(v)}, [&ended](RunContext&) { ++ended; });
      }
    }
    CHECK(ended == 100);
  }
}

}  // namespace push_task_test

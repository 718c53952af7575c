// Stopped scopes: what is queued is dropped, what runs ends unseen, who waits is told.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/storage.h"
#include "kaon/engine/task.h"
#include "support.h"

namespace cancel_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

enum class End { value, cancelled, other };

Task<End> read_it(Cell cell, double expected) {
  try {
    Cell ready = co_await cell;
    co_return ready.value() == expected ? End::value : End::other;
  } catch (const Cancelled&) {
    co_return End::cancelled;
  } catch (...) {
    co_return End::other;
  }
}

// A scope made on a temporary would end with it.
template <class Scope>
concept GivesBudget = requires(Scope&& scope) {
  std::forward<Scope>(scope).with_budget(0);
};
static_assert(GivesBudget<EngineScope&> && GivesBudget<const EngineScope&> && !GivesBudget<EngineScope>);

// Counts down by one for each that ends.
Task<void> record(Task<End> task, End& end, std::atomic<int>& left) {
  end = co_await task;
  --left;
}

}  // namespace

TEST_CASE("users row 48: queued operations of a stopped scope never run", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Gate gate;
    Var running, written, updated, other;
    std::atomic<int> runs{0};
    int others = 0;
    auto token = std::make_shared<int>();
    std::stop_source source;
    engine.push({write(running)}, [&](RunContext&) { gate.wait(); });
    {
      EngineScope scope(engine);
      EngineScope stoppable = scope.with_budget(0, source.get_token());
      const PushOptions label{.label = {.name = "late"}};
      for (int i = 0; i < 100; ++i) {
        engine.push(
            {read(running), write(written)}, [&, token](RunContext&) { ++runs; }, label);
        engine.push(
            {read(running), update(updated)}, [&, token](RunContext&) { ++runs; }, label);
      }
    }
    engine.push({read(running), update(other)}, [&](RunContext&) { ++others; });  // not in the scope
    source.request_stop();
    gate.open();
    CHECK_THROWS_AS(engine.wait(written), Cancelled);
    CHECK_THROWS_WITH(engine.wait(updated), Contains("[late]") && Contains("cancel_test.cpp"));
    CHECK_NOTHROW(engine.wait_all());
    CHECK(runs == 0);
    CHECK(others == 1);
    CHECK(token.use_count() == 1);
    CHECK_NOTHROW(engine.wait(other));
    CHECK(engine.stats().failed == 0);
    CHECK(engine.stats().completed == engine.stats().ops);
    // what reads it, or several such, is cancelled with it; an overwrite heals
    Var both;
    engine.push({read(written), read(updated), write(both)}, [&](RunContext&) { ++runs; });
    CHECK_THROWS_AS(engine.wait(both), Cancelled);
    Var reader;
    engine.push({read(written), write(reader)}, [&](RunContext&) { ++runs; });
    CHECK_THROWS_AS(engine.wait(reader), Cancelled);
    engine.push({write(written)}, [](RunContext&) {});
    CHECK_NOTHROW(engine.wait(written));
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 48: what is pushed after the stop is dropped", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::stop_source source;
    EngineScope scope(engine);
    Var v, parameter;
    int runs = 0;
    {
      EngineScope stoppable = scope.with_budget(0, source.get_token());
      engine.push({write(v), update(parameter)}, [&](RunContext&) { ++runs; });
      engine.wait(v);
      source.request_stop();
      engine.push({write(v)}, [&](RunContext&) { ++runs; });
      engine.push({update(parameter)}, [&](RunContext&) { ++runs; }, {.transactional = true});
      CHECK_THROWS_AS(engine.wait(v), Cancelled);
      CHECK_NOTHROW(engine.wait(parameter));  // as it was
    }
    CHECK(runs == 1);
    engine.push({write(v)}, [&](RunContext&) { ++runs; });
    CHECK_NOTHROW(engine.wait(v));
    CHECK(runs == 2);
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 48: scopes nest: the outer stop reaches the inner scope, not the other way round", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (bool stops_outer : {false, true}) {
      std::stop_source outer_source, inner_source;
      Var in_outer, in_inner, in_plain;
      {
        EngineScope scope(engine);
        EngineScope outer = scope.with_budget(0, outer_source.get_token());
        EngineScope inner = outer.with_budget(0, inner_source.get_token());
        EngineScope plain = inner.with_budget(1 << 20);  // no token of its own
        (stops_outer ? outer_source : inner_source).request_stop();
        engine.push({write(in_plain)}, [](RunContext&) {});
      }
      {
        EngineScope scope(engine);
        EngineScope outer = scope.with_budget(0, outer_source.get_token());
        engine.push({write(in_outer)}, [](RunContext&) {});
        EngineScope inner = outer.with_budget(0, inner_source.get_token());
        engine.push({write(in_inner)}, [](RunContext&) {});
      }
      CHECK_THROWS_AS(engine.wait(in_plain), Cancelled);
      CHECK_THROWS_AS(engine.wait(in_inner), Cancelled);
      if (stops_outer) CHECK_THROWS_AS(engine.wait(in_outer), Cancelled);
      else CHECK_NOTHROW(engine.wait(in_outer));
      engine.wait_all();
    }
  });
}

TEST_CASE("users row 48: an operation that runs ends unseen", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (bool fails : {false, true}) {
      Gate started, gate;
      Var v;
      std::stop_source source;
      std::atomic<bool> ended{false};
      {
        EngineScope scope(engine);
        EngineScope stoppable = scope.with_budget(0, source.get_token());
        engine.push({write(v)}, [&, fails](RunContext&) {
          started.open();
          gate.wait();
          ended = true;
          if (fails) throw ValueError("[op] nobody looks");
        });
      }
      started.wait();
      source.request_stop();
      gate.open();
      CHECK_NOTHROW(engine.wait_all());
      CHECK(ended);
      if (fails) CHECK_THROWS_AS(engine.wait(v), ValueError);  // the array is not sound, whoever asks
      else CHECK_NOTHROW(engine.wait(v));
    }
    CHECK(engine.stats().failed == 1);
  });
}

TEST_CASE("users row 48: a Task that waits for a long operation or for room is told at once", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Gate gate;
    Cell slow(engine), bystander(engine);
    engine.push({write(slow.var())}, [&](RunContext&) { gate.wait(); });
    std::stop_source source, other_source;
    End ends[3] = {End::other, End::other, End::other};
    std::atomic<int> left{2}, others_left{1};
    auto ask = [](Engine& engine) -> Task<End> {
      IntrusivePtr<Buffer> kept(new Buffer(4096, cpu(), engine));  // more than the budget
      engine.push({write(kept->var)}, [kept](RunContext&) {});
      try {
        co_await engine.admit();
        co_return End::value;
      } catch (const Cancelled&) {
        co_return End::cancelled;
      }
    };
    EngineScope scope(engine);
    {
      EngineScope stoppable = scope.with_budget(1024, source.get_token());
      spawn(record(read_it(slow, 0), ends[0], left), engine.io_executor());
      spawn(record(ask(engine), ends[1], left), engine.io_executor());
    }
    {
      EngineScope unaffected = scope.with_budget(0, other_source.get_token());
      spawn(record(read_it(slow, 0), ends[2], others_left), engine.io_executor());
    }
    std::this_thread::sleep_for(5ms);
    CHECK(left == 2);
    source.request_stop();
    CHECK(becomes_true([&] { return left == 0; }));  // the operation is still running
    CHECK(ends[0] == End::cancelled);
    CHECK(ends[1] == End::cancelled);
    CHECK(others_left == 1);
    gate.open();
    CHECK(becomes_true([&] { return others_left == 0; }));
    CHECK(ends[2] == End::value);
    engine.wait_all();
  });
}

TEST_CASE("users row 48: a Task in a scope that was stopped before it waits", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto run = [](Engine& engine) -> Task<int> {
      std::stop_source source;
      EngineScope scope(engine);
      EngineScope stoppable = scope.with_budget(0, source.get_token());
      source.request_stop();
      int told = 0;
      Cell cell(engine);
      for (int i = 0; i < 3; ++i) {
        try {
          if (i == 2) co_await engine.admit();
          else co_await cell;
        } catch (const Cancelled&) {
          ++told;
        }
        engine.push({write(cell.var())}, [cell](RunContext&) {});  // keeps the array
      }
      co_return told;
    };
    CHECK(sync_wait(run(engine)) == 3);
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 48: stop and completion at the same time", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    int by_end[3] = {};
    for (int round = 0; round < rounds(1000); ++round) {
      Cell cell(engine);
      std::stop_source source;
      constexpr int readers = 4;
      End ends[readers];
      std::atomic<int> left{readers};
      std::atomic<bool> go{false};
      engine.push({write(cell.var())}, [&, cell](RunContext&) {
        while (!go) cpu_pause();
        spin_for(std::chrono::nanoseconds(round % 50 * 100));
        cell.value() = 5;
      });
      {
        EngineScope scope(engine);
        EngineScope stoppable = scope.with_budget(0, source.get_token());
        for (End& end : ends) spawn(record(read_it(cell, 5), end, left), engine.io_executor());
        engine.push({read(cell.var())}, [](RunContext&) {});
      }
      std::thread stopper([&] {
        while (!go) cpu_pause();
        spin_for(std::chrono::nanoseconds(round % 37 * 150));
        source.request_stop();
      });
      go = true;
      stopper.join();
      if (!becomes_true([&] { return left == 0; })) FAIL("a Task was never told");
      for (End end : ends) ++by_end[int(end)];
      engine.wait_all();
    }
    CHECK(by_end[int(End::other)] == 0);
    CHECK(by_end[int(End::value)] + by_end[int(End::cancelled)] == 4 * rounds(1000));
  });
}

TEST_CASE("users row 48: after a stop all memory is back", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    const size_t live = Storage::cpu().stats().live;
    EngineScope scope(engine);
    for (int round = 0; round < rounds(50); ++round) {
      std::stop_source source;
      EngineScope stoppable = scope.with_budget(size_t(1) << 30, source.get_token());
      Gate gate;
      std::atomic<int> left{10};
      End ends[10];
      {
        IntrusivePtr<Buffer> first(new Buffer(100000, cpu(), engine)), last = first;
        engine.push({write(first->var)}, [first, &gate](RunContext&) {
          first->ensure();
          gate.wait();
        });
        for (int i = 0; i < 50; ++i) {
          IntrusivePtr<Buffer> next(new Buffer(100000, cpu(), engine));
          engine.push({read(last->var), write(next->var)}, [last, next](RunContext&) { next->ensure(); });
          last = next;
        }
        Cell cell(engine);
        engine.push({read(first->var), write(cell.var())}, [cell, first](RunContext&) {});
        for (End& end : ends) spawn(record(read_it(cell, 0), end, left), engine.io_executor());
      }
      CHECK(stoppable.used_bytes() == 51 * 100000);
      source.request_stop();
      gate.open();
      engine.wait_all();
      REQUIRE(becomes_true([&] { return left == 0; }));
      CHECK(stoppable.used_bytes() == 0);
      CHECK(Storage::cpu().stats().live == live);
    }
  });
}

}  // namespace cancel_test

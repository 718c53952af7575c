// Budgets: how much the arrays of a scope may take, and who waits when they take more.
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fstream>
#include <functional>
#include <vector>

#include "kaon/engine/chunk.h"
#include "kaon/engine/storage.h"
#include "kaon/engine/task.h"
#include "support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

constexpr size_t unit = 64 * 1024;  // takes just as much of the storage
using Array = IntrusivePtr<Chunk>;
Array make(Engine& engine, size_t bytes = unit) { return Array(new Chunk(bytes, cpu(), engine)); }

// The most that arrays take in memory while an operation runs.
struct Peak {
  const size_t base = Storage::cpu().stats().live;
  std::atomic<size_t> most{0};
  void look() {
    size_t now = Storage::cpu().stats().live - base;
    size_t seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
  }
};

// b = a + 1, or 1 without an a; in the first double of each.
void push_step(Engine& engine, const Array& a, const Array& b, Peak& peak) {
  auto body = [a, b, &peak](RunContext&) {
    auto* out = static_cast<double*>(b->ensure());
    out[0] = a ? static_cast<double*>(a->ensure())[0] + 1 : 1;
    peak.look();
  };
  if (a) engine.push({read(a->var), write(b->var)}, std::move(body));
  else engine.push({write(b->var)}, std::move(body));
}

double run_chain(Engine& engine, int steps, Peak& peak) {
  Array last;
  for (int i = 0; i < steps; ++i) {
    Array next = make(engine);
    push_step(engine, last, next, peak);
    last = next;
  }
  engine.wait(last->var);
  return static_cast<double*>(last->ensure())[0];
}

// One thread that runs coroutines and timers.
class OneThread : public Executor {
 public:
  OneThread() : thread_([this] { io_.run(); }) {}
  ~OneThread() {
    while (posting_ > 0) std::this_thread::yield();  // the engine's thread may still be inside post()
    work_.reset();
    thread_.join();
  }
  void post(std::coroutine_handle<> work) override {
    ++posting_;
    boost::asio::post(io_, [work] { resume_coroutine(work); });
    --posting_;
  }
  boost::asio::io_context& io() { return io_; }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::atomic<int> posting_{0};
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

// Takes four units until the gate opens. A Task's push does not block.
Task<void> fill(Engine& engine, Gate& gate) {
  Array big = make(engine, 4 * unit);
  engine.push({write(big->var)}, [big, &gate](RunContext&) { gate.wait(); });
  co_return;
}

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("users row 10: 20,000 steps without a wait stay within the engine's budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts(0,
                   [](Engine& engine) {
                     Peak peak;
                     CHECK(run_chain(engine, rounds(20000), peak) == rounds(20000));
                     CHECK(peak.most <= budget + unit);
                     engine.wait_all();
                     CHECK(engine.active_limits()->used() == 0);
                     CHECK(Storage::cpu().stats().live == peak.base);
                   },
                   {.max_bytes = budget});
}

TEST_CASE("users row 10: independent steps of several threads stay within the scope's budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts([](Engine& engine) {
    Peak peak;
    EngineScope scope(engine);
    EngineScope limited = scope.with_budget(budget);
    Limits* limits = engine.active_limits();
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        thread_context().limits = limits;
        for (int i = 0; i < rounds(2000); ++i) push_step(engine, {}, make(engine), peak);
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_all();
    CHECK(peak.most <= budget + 2 * unit);
    CHECK(limited.used_bytes() == 0);
  });
}

TEST_CASE("users row 10: budgets nest, and end with their scopes", "[engine]") {
  at_thread_counts([](Engine& engine) {
    EngineScope scope(engine);
    CHECK(engine.active_limits() == nullptr);
    EngineScope outer = scope.with_budget(8 * unit);
    Array kept = make(engine);
    Array outlives;
    {
      EngineScope inner = outer.with_budget(2 * unit);
      CHECK(inner.used_bytes() == 0);
      Array both = make(engine);
      CHECK(inner.used_bytes() == unit);
      CHECK(outer.used_bytes() == 2 * unit);
      Peak peak;
      CHECK(run_chain(engine, rounds(500), peak) == rounds(500));
      CHECK(peak.most <= 3 * unit);  // `both` has no memory yet
      engine.wait_all();
      outlives = make(engine);
      CHECK(inner.used_bytes() == 2 * unit);
      {
        EngineScope loose = inner.with_budget(0);  // no limit of its own, inside those around it
        Peak again;
        CHECK(run_chain(engine, rounds(500), again) == rounds(500));
        CHECK(again.most <= 3 * unit);
      }
      engine.wait_all();
    }
    CHECK(outer.used_bytes() == 2 * unit);
    Peak peak;
    CHECK(run_chain(engine, rounds(500), peak) == rounds(500));
    CHECK(peak.most <= 8 * unit);
    engine.wait_all();
    outlives = {};
    kept = {};
    CHECK(outer.used_bytes() == 0);
    Engine other({.threads = 1, .max_bytes = 5 * unit});
    EngineScope elsewhere(other);  // has limits of its own
    CHECK(other.active_limits() != nullptr);
    Array not_ours = make(other);
    CHECK(outer.used_bytes() == 0);
  });
}

TEST_CASE("users row 10: a producer that keeps more than the budget goes on", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto produce = [](Engine& engine) -> Task<int> {
      EngineScope scope(engine);
      EngineScope limited = scope.with_budget(2 * unit);
      std::vector<Array> kept;
      Peak peak;
      for (int i = 0; i < 50; ++i) {
        co_await engine.admit();
        kept.push_back(make(engine));
        push_step(engine, i ? kept[size_t(i) - 1] : Array(), kept.back(), peak);
      }
      co_await engine.idle();
      co_return int(static_cast<double*>(kept.back()->ensure())[0]);
    };
    CHECK(sync_wait(produce(engine)) == 50);
    EngineScope scope(engine);
    EngineScope limited = scope.with_budget(2 * unit);
    std::vector<Array> kept;
    Peak peak;
    for (int i = 0; i < 50; ++i) {
      kept.push_back(make(engine));
      push_step(engine, i ? kept[size_t(i) - 1] : Array(), kept.back(), peak);
    }
    engine.wait_all();
    CHECK(static_cast<double*>(kept.back()->ensure())[0] == 50);
    kept.clear();
    CHECK(limited.used_bytes() == 0);
  });
}

TEST_CASE("users row 11: a Task that asks before each push stays within the budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts([](Engine& engine) {
    Peak peak;
    auto produce = [](Engine& engine, Peak& peak, bool asks) -> Task<double> {
      EngineScope scope(engine);
      EngineScope limited = scope.with_budget(budget);
      Cell always(engine);
      Array last;
      for (int i = 0; i < rounds(5000); ++i) {
        if (asks) co_await engine.admit();
        else co_await always;  // any suspension point waits for room
        Array next = make(engine);
        push_step(engine, last, next, peak);
        last = next;
      }
      co_await engine.idle();
      co_return static_cast<double*>(last->ensure())[0];
    };
    CHECK(sync_wait(produce(engine, peak, true)) == rounds(5000));
    CHECK(peak.most <= budget + unit);
    CHECK(sync_wait(produce(engine, peak, false)) == rounds(5000));
    CHECK(peak.most <= budget + unit);
    CHECK(Storage::cpu().stats().live == peak.base);
  });
}

TEST_CASE("users row 11: who asked first is admitted first", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < 20; ++round) {
      Gate gate;
      std::vector<int> order;
      std::atomic<int> admitted{0};
      std::atomic<bool> all_asked{false};
      EngineScope scope(engine);
      EngineScope limited = scope.with_budget(unit);
      sync_wait(fill(engine, gate));
      OneThread thread;
      auto ask = [](Engine& engine, int i, std::vector<int>& order, std::atomic<int>& admitted) -> Task<void> {
        co_await engine.admit();
        order.push_back(i);  // all on one thread
        ++admitted;
      };
      for (int i = 0; i < 20; ++i) spawn(ask(engine, i, order, admitted), thread);
      boost::asio::post(thread.io(), [&] { all_asked = true; });
      REQUIRE(becomes_true([&] { return all_asked.load(); }));
      CHECK(admitted == 0);
      gate.open();
      REQUIRE(becomes_true([&] { return admitted == 20; }));
      CHECK(std::is_sorted(order.begin(), order.end()));
      engine.wait_all();
    }
  });
}

TEST_CASE("users row 11: whoever comes while others wait for room stands behind them", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 1, .max_in_flight = 64});  // goes on at 48
  EngineScope scope(engine);
  Gate gate, second_gate;
  Var first, second;
  engine.push({write(first)}, [&](RunContext&) { gate.wait(); });
  auto run = [](Engine& engine, Var& first, Var& second, Gate& second_gate) -> Task<void> {
    for (int i = 0; i < 14; ++i) engine.push({update(first)}, [](RunContext&) {});
    engine.push({write(second), read(first)}, [&](RunContext&) { second_gate.wait(); });
    for (int i = 0; i < 55; ++i) engine.push({update(second)}, [](RunContext&) {});
    co_return;
  };
  sync_wait(run(engine, first, second, second_gate));
  std::vector<int> order;
  std::atomic<int> admitted{0};
  OneThread thread;
  auto ask = [](Engine& engine, int i, std::vector<int>& order, std::atomic<int>& admitted) -> Task<void> {
    co_await engine.admit();
    order.push_back(i);
    ++admitted;
  };
  auto spawn_and_run = [&](int i) {
    std::atomic<bool> has_asked{false};
    spawn(ask(engine, i, order, admitted), thread);
    boost::asio::post(thread.io(), [&] { has_asked = true; });
    return becomes_true([&] { return has_asked.load(); });
  };
  REQUIRE(spawn_and_run(0));
  gate.open();
  REQUIRE(
      becomes_true([&] { return engine.stats().ops - engine.stats().completed == 56; }));  // under the limit, above 48
  CHECK(admitted == 0);
  CHECK_FALSE(engine.is_over_budget());
  REQUIRE(spawn_and_run(1));
  CHECK(admitted == 0);
  second_gate.open();
  REQUIRE(becomes_true([&] { return admitted == 2; }));
  CHECK(order == std::vector<int>{0, 1});
  engine.wait_all();
}

TEST_CASE("users row 11: a timer ticks on the thread whose producer waits for room", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    EngineScope scope(engine);
    EngineScope limited = scope.with_budget(unit);
    Gate gate;
    sync_wait(fill(engine, gate));
    OneThread thread;
    std::atomic<int> ticks{0};
    std::atomic<bool> ended{false};
    std::atomic<int> pushed{0}, elsewhere{0};
    boost::asio::steady_timer timer(thread.io());
    std::function<void()> tick = [&] {
      timer.expires_after(1ms);
      timer.async_wait([&](const boost::system::error_code& e) {
        ++ticks;
        if (!e && !ended) tick();
      });
    };
    auto produce = [](Engine& engine, auto& thread, std::atomic<int>& pushed, std::atomic<int>& elsewhere,
                      std::atomic<bool>& ended) -> Task<void> {
      for (int i = 0; i < 100; ++i) {
        co_await engine.admit();
        elsewhere += std::this_thread::get_id() != thread.id();
        engine.push({}, [](RunContext&) {});
        ++pushed;
      }
      ended = true;
    };
    boost::asio::post(thread.io(), tick);
    spawn(produce(engine, thread, pushed, elsewhere, ended), thread);
    CHECK(becomes_true([&] { return ticks >= 50; }));
    CHECK(pushed == 0);
    gate.open();
    CHECK(becomes_true([&] { return ended.load(); }));
    CHECK(pushed == 100);
    CHECK(elsewhere == 0);
    engine.wait_all();
  });
}

namespace {
void run_unread_chain(int steps) {
  at_thread_counts([steps](Engine& engine) {
    Peak peak;
    Array b = make(engine), a;
    push_step(engine, {}, b, peak);
    const size_t before = resident_bytes();
    a = b;
    for (int i = 0; i < steps; ++i) {
      Array next = make(engine, 1024);
      engine.push({read(a->var), read(b->var), write(next->var)}, [a, b, next](RunContext&) {
        static_cast<double*>(next->ensure())[0] =
            static_cast<double*>(a->ensure())[0] + static_cast<double*>(b->ensure())[0];
      });
      a = next;
    }
    const size_t after = resident_bytes();
    CHECK(after < before + (size_t(64) << 20));
    engine.wait(a->var);
    CHECK(static_cast<double*>(a->ensure())[0] == steps + 1);
  });
}
}  // namespace

TEST_CASE("users row 12: a chain of 20,000 steps that nobody reads takes bounded memory", "[engine]") {
  run_unread_chain(rounds(20000));
}
TEST_CASE("users row 12: a chain of 1,000,000 steps that nobody reads takes bounded memory", "[engine][slow]") {
  run_unread_chain(rounds(1000000));
}

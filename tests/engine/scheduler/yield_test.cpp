// When a coroutine gives its executor's thread to others.
#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kaon/asio.h"
#include "kaon/engine/generator.h"
#include "kaon/engine/when.h"
#include "kaon/tests/engine/support.h"

namespace yield_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
namespace asio = boost::asio;

namespace {

Task<int> number(int n) { co_return n; }
AsyncGenerator<int> count() {
  for (int i = 0;; ++i) co_yield i;
}

// Ready awaits of one kind, until `ended`.
enum class Kind { task, value, array, admit, sleep, callee_array, yield };

Task<void> await_ready_once(Cell cell) { co_await cell; }

Task<void> await_ready(Engine& engine, Kind kind, const std::atomic<bool>& ended, std::chrono::microseconds work) {
  Cell cell(engine);
  auto values = count();
  while (!ended) {
    if (work.count() > 0) spin_for(work);
    if (kind == Kind::task) co_await number(1);
    if (kind == Kind::value) co_await values.next();
    if (kind == Kind::array) co_await cell;
    if (kind == Kind::admit) co_await engine.admit();
    if (kind == Kind::sleep) co_await sleep_for(0ms);
    if (kind == Kind::callee_array) co_await await_ready_once(cell);
    if (kind == Kind::yield) co_await yield();
  }
}

constexpr Kind kinds[] = {Kind::task, Kind::value, Kind::array, Kind::admit, Kind::sleep, Kind::callee_array};

}  // namespace

TEST_CASE("yield: coroutines of one executor take turns", "[engine]") {
  at_thread_counts([](Engine& engine) {
    // by the clock they may give way besides, but under a chosen schedule
    const auto is_in_turns = [&](const std::string& said, const std::string& expected) {
      if (engine.options().schedule.kind != Schedule::Kind::arrival) return said == expected;
      return std::is_permutation(said.begin(), said.end(), expected.begin(), expected.end()) &&
             said.find('a') < said.rfind('b') && said.find('b') < said.rfind('a');
    };
    auto say = [](std::string& said, char what, int times) -> Task<void> {
      for (int i = 0; i < times; ++i) {
        said += what;
        co_await yield();
      }
    };
    SECTION("under sync_wait") {
      std::string said;
      sync_wait(when_all(say(said, 'a', 4), say(said, 'b', 4), say(said, 'c', 2)));
      INFO(said);
      CHECK(is_in_turns(said, "abcabcabab"));
    }
    SECTION("under Asio") {
      std::string said;
      asio::io_context io(1);
      AsioAdapter adapter(io.get_executor());
      for (char what : {'a', 'b', 'c'}) spawn(say(said, what, 3), adapter);
      io.run();
      INFO(said);
      CHECK(is_in_turns(said, "abcabcabc"));
    }
    SECTION("in operations") {  // they begin on a worker and go on on the io pool
      std::atomic<int> ended{0};
      for (int i = 0; i < 20; ++i) {
        push_task(engine, {}, [&ended]() -> Task<void> {
          for (int k = 0; k < 10; ++k) co_await yield();
          ++ended;
        });
      }
      engine.wait_all();
      CHECK(ended == 20);
    }
  });
}

TEST_CASE("yield: goes on on the coroutine's executor, in a stopped scope too", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto run = [](Engine& engine) -> Task<int> {
      const std::thread::id here = std::this_thread::get_id();
      std::stop_source source;
      EngineScope scope(engine);
      EngineScope stopped = scope.with_budget(0, source.get_token());
      int elsewhere = 0;
      for (int i = 0; i < 20; ++i) {
        if (i == 10) source.request_stop();
        co_await yield();
        elsewhere += std::this_thread::get_id() != here;
      }
      co_return elsewhere;
    };
    CHECK(sync_wait(run(engine)) == 0);
  });
}

TEST_CASE("yield: a coroutine that only yields lets the engine and the others make what it looks for", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> steps{0};
    auto look = [](std::atomic<int>& steps) -> Task<void> {
      while (steps < 2) co_await yield();
    };
    auto push = [](Engine& engine, std::atomic<int>& steps) -> Task<void> {
      co_await yield();
      engine.push({}, [&steps](RunContext&) { ++steps; });
      ++steps;
    };
    sync_wait(when_all(look(steps), push(engine, steps)));
    CHECK(steps == 2);
    engine.wait_all();
  });
}

TEST_CASE("yield: what is left of a when_any and gives way again and again does not keep sync_wait", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (Kind kind : {Kind::yield, Kind::task}) {
      if (kind == Kind::task && engine.options().schedule.kind != Schedule::Kind::arrival) continue;  // never gives way
      std::atomic<bool> over{false}, ended{false};
      auto first = []() -> Task<void> { co_await sleep_for(3ms); };
      auto spin = [](Engine& engine, Kind kind, std::atomic<bool>& over, std::atomic<bool>& ended) -> Task<void> {
        co_await await_ready(engine, kind, over, 0us);
        ended = true;
      };
      auto run = [](auto first, auto spin, Engine& engine, Kind kind, std::atomic<bool>& over,
                    std::atomic<bool>& ended) -> Task<size_t> {
        std::vector<Task<void>> tasks;
        tasks.push_back(first());
        tasks.push_back(spin(engine, kind, over, ended));
        auto winner = co_await when_any(std::move(tasks));
        co_return winner.first;
      };
      CHECK(sync_wait(run(first, spin, engine, kind, over, ended)) == 0);
      CHECK_FALSE(ended);
      over = true;
      CHECK(becomes_true([&] { return ended.load(); }));
    }
  });
}

TEST_CASE("yield: goes on behind a failure, a limit and a generator's end as any await", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     // the await waits for room as well
                     auto produce = [](Engine& engine) -> Task<uint64_t> {
                       uint64_t peak = 0;
                       for (int i = 0; i < 1000; ++i) {
                         engine.push({}, [](RunContext&) { spin_for(2us); });
                         co_await yield();
                         EngineStats s = engine.stats();
                         peak = std::max(peak, s.ops - std::min(s.ops, s.completed));
                       }
                       co_return peak;
                     };
                     CHECK(sync_wait(produce(engine)) <= 66);
                     engine.wait_all();
                   },
                   {.max_in_flight = 64});
  at_thread_counts([](Engine&) {
    auto values = [](bool fails) -> AsyncGenerator<int> {
      for (int i = 0; i < 3; ++i) {
        co_await yield();
        co_yield i;
      }
      co_await yield();
      if (fails) throw ValueError("[test] the end");
    };
    auto sum = [](AsyncGenerator<int> values) -> Task<int> {
      int sum = 0;
      while (auto v = co_await values.next()) sum += *v;
      co_return sum;
    };
    CHECK(sync_wait(sum(values(false))) == 3);
    CHECK_THROWS_AS(sync_wait(sum(values(true))), ValueError);
  });
}

TEST_CASE("await: ready awaits let an event loop's timer come in time", "[engine]") {
  for (int threads : {0, 1}) {
    for (Kind kind : kinds) {
      for (std::chrono::microseconds work : {0us, 200us}) {
        INFO(threads << " threads, kind " << int(kind) << ", " << work.count() << " us between two awaits");
        Watchdog watchdog;  // without giving way the loop never comes to its timer
        Engine engine({.threads = threads});
        EngineScope scope(engine);
        asio::io_context io(1);
        AsioAdapter adapter(io.get_executor());
        std::atomic<bool> ended{false};
        std::vector<std::chrono::microseconds> late;
        asio::steady_timer timer(io, 2ms);
        std::function<void(boost::system::error_code)> tick = [&](boost::system::error_code) {
          late.push_back(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - timer.expiry()));
          if (late.size() == 10) {
            ended = true;
            return;
          }
          timer.expires_at(timer.expiry() + 2ms);
          timer.async_wait(tick);
        };
        timer.async_wait(tick);
        spawn(await_ready(engine, kind, ended, work), adapter);
        io.run();
        REQUIRE(late.size() == 10);
        std::sort(late.begin(), late.end());
        // a turn takes a millisecond; the machine may be busy, so not every tick and with patience
        CHECK(late[4] < 1s);
      }
    }
  }
}

TEST_CASE("await: slow steps with ready awaits give way after each, also inside a nested sync_wait", "[engine]") {
  for (bool nested : {false, true}) {
    Watchdog watchdog;
    Engine engine({.threads = 0});
    EngineScope scope(engine);
    asio::io_context io(1);
    AsioAdapter adapter(io.get_executor());
    int polls = 0, steps = 0;
    bool ended = false;
    std::function<void()> poll = [&] {
      ++polls;
      if (!ended) asio::post(io, poll);
    };
    auto train = [](Engine& engine, bool nested, int& steps, bool& ended) -> Task<void> {
      Cell loss(engine);
      for (int i = 0; i < 20; ++i) {
        engine.push({write(loss.var())}, [](RunContext&) { std::this_thread::sleep_for(3ms); });
        if (nested) {
          for (int k = 0; k < 31; ++k) sync_wait(number(k));
        }
        co_await loss;
        ++steps;
      }
      ended = true;
    };
    asio::post(io, poll);
    spawn(train(engine, nested, steps, ended), adapter);
    io.run();
    CHECK(steps == 20);
    CHECK(polls >= 15);  // but for the first ones
  }
}

TEST_CASE("await: under a chosen schedule the clock has no say in the order", "[engine]") {
  auto run = [] {
    Watchdog watchdog;
    Engine engine({.schedule = Schedule::random(7)});
    EngineScope scope(engine);
    auto say = [](std::string& said, char what) -> Task<void> {
      for (int i = 0; i < 8; ++i) {
        spin_for(700us);
        co_await number(i);
        said += what;
        if (i % 3 == 2) co_await yield();
      }
    };
    std::string said;
    sync_wait(when_all(say(said, 'a'), say(said, 'b')));
    return said;
  };
  CHECK(run() == "aaabbbaaabbbaabb");
}

TEST_CASE("await: giving way keeps what travels with a coroutine and what it holds", "[engine]") {
  at_thread_counts([](Engine& engine) {
    struct Counted {
      explicit Counted(std::atomic<int>& live) : live(live) { ++live; }
      Counted(const Counted& o) : live(o.live) { ++live; }
      ~Counted() { --live; }
      std::atomic<int>& live;
    };
    std::atomic<int> live{0};
    auto callee = [](Counted counted, Cell cell, int n) -> Task<int> {
      co_await cell;
      co_return n + (counted.live > 0 ? 0 : 1000);
    };
    auto run = [](auto callee, Engine& engine, std::atomic<int>& live, const char* path) -> Task<int> {
      int wrong = 0;
      thread_context().recording = true;
      thread_context().block_path = path;
      Cell cell(engine);
      for (int i = 0; i < 50; ++i) {
        spin_for(100us);  // so that turns end
        wrong += co_await callee(Counted(live), cell, i) != i;
        ThreadContext& c = thread_context();
        wrong += !c.recording || c.block_path != path || c.engine != engine.ref() || !c.in_task;
      }
      co_return wrong;
    };
    const auto wrong = sync_wait(when_all(run(callee, engine, live, "first"), run(callee, engine, live, "second")));
    CHECK(std::get<0>(wrong) == 0);
    CHECK(std::get<1>(wrong) == 0);
    CHECK(live == 0);
    CHECK_FALSE(thread_context().recording);
  });
}

}  // namespace yield_test

// when_all and when_any: several Tasks at once.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kaon/engine/when.h"
#include "support.h"

namespace when_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Task<int> number(int n, bool later) {
  if (later) co_await sleep_for(200us);
  co_return n;
}
Task<void> fail_with(int code, bool later) {
  if (later) co_await sleep_for(200us);
  throw code;
}
Task<int> fail_or_not(int n, bool fails) {
  co_await sleep_for(std::chrono::microseconds(500 - 100 * (n % 5)));
  if (fails) throw ValueError("[task] number " + std::to_string(n));
  co_return n;
}
Task<double> value_of(Cell cell) {
  Cell ready = co_await cell;
  co_return ready.value();
}
Task<std::unique_ptr<std::string>> text() { co_return std::make_unique<std::string>("only movable"); }

template <class T>
int code_of(Task<T> task) {
  try {
    sync_wait(std::move(task));
  } catch (int code) {
    return code;
  }
  return 0;
}

}  // namespace

TEST_CASE("when_all: the values come in order, whoever ends first", "[engine]") {
  at_thread_counts([](Engine&) {
    auto run = []() -> Task<void> {
      std::vector<Task<int>> tasks;
      for (int i = 0; i < 20; ++i) tasks.push_back(fail_or_not(i, false));
      std::vector<int> values = co_await when_all(std::move(tasks));
      CHECK(values.size() == 20);
      for (int i = 0; i < 20; ++i) CHECK(values[size_t(i)] == i);

      std::vector<Task<int>> none;
      std::vector<int> empty = co_await when_all(std::move(none));
      CHECK(empty.empty());
    };
    sync_wait(run());
  });
}

TEST_CASE("when_all: tasks of several types, void among them", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto run = [](Engine& engine) -> Task<void> {
      Cell cell(engine);
      engine.push({write(cell.var())}, [cell](RunContext&) { cell.value() = 2.5; });
      std::atomic<int> runs{0};
      auto count = [](std::atomic<int>& runs) -> Task<void> {
        co_await sleep_for(100us);
        ++runs;
      };
      for (bool later : {false, true}) {
        auto values = co_await when_all(number(4, later), count(runs), value_of(cell), text());
        CHECK(std::get<0>(values) == 4);
        CHECK(std::get<2>(values) == 2.5);
        CHECK(*std::get<3>(values) == "only movable");
      }
      CHECK(runs == 2);
      std::vector<Task<void>> several;
      for (int i = 0; i < 5; ++i) several.push_back(count(runs));
      auto all = co_await when_all(std::move(several));
      CHECK(all.size() == 5);
      CHECK(runs == 7);
      auto nobody = co_await when_all();
      CHECK(std::tuple_size_v<decltype(nobody)> == 0);
    };
    sync_wait(run(engine));
  });
}

TEST_CASE("when_all: the first failure in order is thrown, after all have ended", "[engine]") {
  at_thread_counts([](Engine&) {
    auto run = [](std::atomic<int>& ended) -> Task<void> {
      auto slow = [](std::atomic<int>& ended) -> Task<int> {
        co_await sleep_for(3ms);
        ++ended;
        co_return 1;
      };
      std::vector<Task<int>> tasks;
      tasks.push_back(slow(ended));
      tasks.push_back(fail_or_not(2, true));  // ends after the next one
      tasks.push_back(fail_or_not(4, true));
      tasks.push_back(slow(ended));
      co_await when_all(std::move(tasks));
    };
    std::atomic<int> ended{0};
    CHECK_THROWS_WITH(sync_wait(run(ended)), Contains("number 2"));
    CHECK(ended == 2);

    auto variadic = [](bool later) -> Task<void> {
      co_await when_all(number(1, later), fail_with(8, later), fail_with(9, false));
    };
    CHECK(code_of(variadic(false)) == 8);
    CHECK(code_of(variadic(true)) == 8);
  });
}

TEST_CASE("when_all: nested, and on arrays that are written meanwhile", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto row = [](Engine& engine, int r) -> Task<double> {
      std::vector<Task<double>> cells;
      for (int i = 0; i < 10; ++i) {
        Cell cell(engine);
        engine.push({write(cell.var())}, [cell, i, r](RunContext&) { cell.value() = r * 10 + i; });
        cells.push_back(value_of(cell));
      }
      double sum = 0;
      std::vector<double> values = co_await when_all(std::move(cells));
      for (double v : values) sum += v;
      co_return sum;
    };
    auto table = [](Engine& engine, auto row) -> Task<double> {
      std::vector<Task<double>> rows;
      for (int r = 0; r < 10; ++r) rows.push_back(row(engine, r));
      std::vector<double> sums = co_await when_all(std::move(rows));
      double sum = 0;
      for (double v : sums) sum += v;
      co_return sum;
    };
    CHECK(sync_wait(table(engine, row)) == 4950);
  });
}

TEST_CASE("when_all: 10,000 tasks take no stack", "[engine]") {
  Watchdog watchdog;
  auto run = [](bool later) -> Task<long> {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 10000; ++i) tasks.push_back(number(i, later && i % 10 == 0));
    std::vector<int> values = co_await when_all(std::move(tasks));
    long sum = 0;
    for (int v : values) sum += v;
    co_return sum;
  };
  CHECK(sync_wait(run(false)) == 49995000);
  CHECK(sync_wait(run(true)) == 49995000);
}

TEST_CASE("when_all: recording and scope of one task are not another's", "[engine]") {
  at_thread_counts([](Engine&) {
    auto one = [](const char* path) -> Task<int> {
      int wrong = thread_context().recording;
      thread_context().recording = true;
      thread_context().block_path = path;
      for (int i = 0; i < 5; ++i) {
        co_await sleep_for(50us);
        wrong += !thread_context().recording || thread_context().block_path != path;
      }
      co_return wrong;
    };
    auto run = [](auto one) -> Task<int> {
      auto both = co_await when_all(one("first"), one("second"));
      co_return std::get<0>(both) + std::get<1>(both) + (thread_context().recording || thread_context().block_path);
    };
    CHECK(sync_wait(run(one)) == 0);
  });
}

TEST_CASE("when_any: the first to end wins, the others go on to their ends", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto run = [](std::atomic<int>& ended, Engine& engine) -> Task<void> {
      auto after = [](std::chrono::milliseconds time, int value, std::atomic<int>& ended) -> Task<int> {
        co_await sleep_for(time);
        ++ended;
        co_return value;
      };
      EngineScope scope(engine);
      {
        EngineScope limited = scope.with_budget(1 << 20);  // ends before the losers do
        std::vector<Task<int>> tasks;
        tasks.push_back(after(300ms, 1, ended));
        tasks.push_back(after(1ms, 2, ended));
        tasks.push_back(after(200ms, 3, ended));
        auto winner = co_await when_any(std::move(tasks));
        CHECK(winner == std::pair(size_t(1), 2));
        CHECK(ended == 1);
      }
      std::vector<Task<int>> ready;
      for (int i = 0; i < 3; ++i) ready.push_back(number(i, false));
      auto won = co_await when_any(std::move(ready));
      const auto [first, n] = won;
      CHECK(n == int(first));  // the first in order, unless its turn was over
    };
    std::atomic<int> ended{0};
    sync_wait(run(ended, engine));
    CHECK(becomes_true([&] { return ended == 3; }));
  });
}

TEST_CASE("when_any: a loser that waits for an array outlives the sync_wait that it began in", "[engine]") {
  for (int threads : {1, 2}) {
    Watchdog watchdog;
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Gate gate;
    Cell late(engine);
    std::atomic<bool> begun{false};
    std::atomic<int> ended{0};
    engine.push({write(late.var())}, [&, late](RunContext&) {
      begun = true;
      gate.wait();
      late.value() = 4;
    });
    REQUIRE(becomes_true([&] { return begun.load(); }));  // on a worker
    auto run = [](Cell late, std::atomic<int>& ended) -> Task<int> {
      auto slow = [](Cell late, std::atomic<int>& ended) -> Task<int> {
        Cell ready = co_await late;
        co_await sleep_for(100us);
        co_await late;
        ended += int(ready.value());
        co_return 0;
      };
      std::vector<Task<int>> tasks;
      tasks.push_back(slow(late, ended));
      tasks.push_back(number(7, true));
      auto winner = co_await when_any(std::move(tasks));
      co_return winner.second;
    };
    CHECK(sync_wait(run(late, ended)) == 7);
    gate.open();
    CHECK(becomes_true([&] { return ended == 4; }));
    engine.wait_all();
  }
}

TEST_CASE("when_any: the winner's failure is thrown, a loser's is not; no task is an error", "[engine]") {
  at_thread_counts([](Engine&) {
    std::atomic<int> hook_calls{0};
    set_unobserved_error_hook([&](std::exception_ptr) { ++hook_calls; });
    std::atomic<int> ended{0};
    auto fail_after = [](std::chrono::milliseconds time, int code, std::atomic<int>& ended) -> Task<void> {
      co_await sleep_for(time);
      ++ended;
      throw code;
    };
    auto race = [&](std::chrono::milliseconds a, std::chrono::milliseconds b) {
      std::vector<Task<void>> tasks;
      tasks.push_back(fail_after(a, 5, ended));
      tasks.push_back(fail_after(b, 6, ended));
      return when_any(std::move(tasks));
    };
    CHECK(code_of(race(1ms, 200ms)) == 5);
    CHECK(code_of(race(200ms, 1ms)) == 6);
    CHECK(becomes_true([&] { return ended == 4; }));
    auto none = []() -> Task<void> {
      std::vector<Task<int>> tasks;
      co_await when_any(std::move(tasks));
    };
    CHECK_THROWS_AS(sync_wait(none()), ValueError);
    CHECK(hook_calls == 0);
    set_unobserved_error_hook({});
  });
}

}  // namespace when_test

// Tasks: results, failures, where they resume, what travels with them.
#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/task.h"
#include "support.h"

namespace task_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

Task<int> number(int n) { co_return n; }
Task<int> sum_to(int n) {
  int sum = 0;
  for (int i = 1; i <= n; ++i) sum += co_await number(i);
  co_return sum;
}
Task<int> nested(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await nested(depth - 1);
}
Task<std::unique_ptr<std::string>> text_later(std::string text) {
  co_await sleep_for(1ms);
  co_return std::make_unique<std::string>(text);
}
Task<void> fail_with(int code, bool later) {
  if (later) co_await sleep_for(100us);
  throw code;
}
Task<int> catch_below(bool later) {
  int seen = 0;
  try {
    co_await fail_with(5, later);
  } catch (int code) {
    seen = code;
  }
  co_return seen;
}

Task<double> read_later(Cell cell) {
  Cell ready = co_await cell;
  co_return ready.value();
}

// Resumes its coroutine from a thread of its own, which does nothing else.
class OtherThread {
 public:
  explicit OtherThread(std::thread& thread) : thread_(thread) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    thread_ = std::thread([caller] { resume_coroutine(caller); });
  }
  void await_resume() const noexcept {}

 private:
  std::thread& thread_;
};

}  // namespace

TEST_CASE("task: results and failures of all kinds", "[engine]") {
  at_thread_counts([](Engine&) {
    CHECK(sync_wait(number(3)) == 3);
    CHECK(sync_wait(sum_to(100)) == 5050);
    CHECK(sync_wait(nested(1000)) == 1000);
    CHECK(*sync_wait(text_later("a text longer than what fits inside a string")) ==
          "a text longer than what fits inside a string");
    for (bool later : {false, true}) {
      CHECK_THROWS_AS(sync_wait(fail_with(1, later)), int);
      CHECK(sync_wait(catch_below(later)) == 5);
    }
  });
}

TEST_CASE("task: lazy, movable, destroyed unstarted without running", "[engine]") {
  Watchdog watchdog;
  bool started = false;
  auto make = [](bool& flag, std::shared_ptr<int>) -> Task<void> {
    flag = true;
    co_return;
  };
  auto token = std::make_shared<int>();
  {
    Task<void> t = make(started, token);
    Task<void> moved = std::move(t);
    CHECK_FALSE(started);
    CHECK(token.use_count() == 2);
  }
  CHECK_FALSE(started);
  CHECK(token.use_count() == 1);
  sync_wait(make(started, token));
  CHECK(started);
  CHECK(token.use_count() == 1);
}

TEST_CASE("task: awaiting an array gives its value and resumes on the waiting thread", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Cell cell(engine);
    auto here = std::this_thread::get_id();
    auto run = [](Engine& engine, Cell cell, std::thread::id here) -> Task<int> {
      int wrong = 0;
      for (int i = 0; i < rounds(2000); ++i) {
        engine.push({update(cell.var())}, [cell](RunContext&) { cell.value() += 1; });
        co_await cell;
        wrong += cell.value() != i + 1 || std::this_thread::get_id() != here;
      }
      co_return wrong;
    };
    CHECK(sync_wait(run(engine, cell, here)) == 0);
  });
}

TEST_CASE("task: awaiting an array whose operation ends much later, or has failed", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Gate gate;
    Cell cell(engine), bad(engine);
    engine.push({write(cell.var())}, [&, cell](RunContext&) {
      gate.wait();
      cell.value() = 2.5;
    });
    std::thread opener([&] {
      std::this_thread::sleep_for(20ms);
      gate.open();
    });
    CHECK(sync_wait(read_later(cell)) == 2.5);
    opener.join();
    engine.push({write(bad.var())}, [](RunContext&) { throw ShapeError("[op] bad"); });
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(sync_wait(read_later(bad)), ShapeError);
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("task: many coroutines wait for one array", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Gate gate;
    Cell cell(engine);
    std::atomic<int> seen{0};
    engine.push({write(cell.var())}, [&, cell](RunContext&) {
      gate.wait();
      cell.value() = 1;
    });
    auto wait_for = [](Cell cell, std::atomic<int>& seen) -> Task<void> {
      Cell c = co_await cell;
      seen += int(c.value());
    };
    for (int i = 0; i < 500; ++i) spawn(wait_for(cell, seen), engine.io_executor());
    std::this_thread::sleep_for(5ms);
    gate.open();
    CHECK(becomes_true([&] { return seen == 500; }));
  });
}

TEST_CASE("task: a coroutine may come back on another thread at any moment", "[engine]") {
  at_thread_counts([](Engine&) {
    auto hop = [](int hops) -> Task<int> {
      int n = 0;
      std::vector<std::thread> threads(static_cast<size_t>(hops));
      auto one = [](std::thread& t) -> Task<int> {
        OtherThread other(t);
        co_await other;
        co_return 1;
      };
      for (std::thread& t : threads) n += co_await one(t);
      // The last thread runs this very line: each is joined by the next.
      for (std::thread& t : threads) {
        if (t.get_id() == std::this_thread::get_id()) t.detach();
        else t.join();
      }
      co_return n;
    };
    CHECK(sync_wait(hop(rounds(200))) == rounds(200));
  });
}

TEST_CASE("task: sleep_for waits at least that long", "[engine]") {
  at_thread_counts([](Engine&) {
    auto nap = [](std::chrono::milliseconds time) -> Task<void> { co_await sleep_for(time); };
    auto start = Clock::now();
    sync_wait(nap(20ms));
    CHECK(Clock::now() - start >= 20ms);
    sync_wait(nap(0ms));
    sync_wait(nap(-5ms));
  });
}

TEST_CASE("task: idle waits for everything and throws what nobody has seen", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto push_and_idle = [](Engine& engine, std::atomic<int>& done, bool fails) -> Task<int> {
      for (int i = 0; i < 100; ++i) {
        engine.push({}, [&done](RunContext&) {
          spin_for(2us);
          ++done;
        });
      }
      Var v;
      if (fails) engine.push({write(v)}, [](RunContext&) { throw ValueError("[op] lost?"); });
      co_await engine.idle();
      co_return done;
    };
    std::atomic<int> done{0};
    CHECK(sync_wait(push_and_idle(engine, done, false)) == 100);
    CHECK_THROWS_AS(sync_wait(push_and_idle(engine, done, true)), AggregateError);
    CHECK(sync_wait(push_and_idle(engine, done, false)) == 300);
  });
}

TEST_CASE("task: idle inside an operation is refused", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    engine.push({write(v)}, [&](RunContext&) {
      auto wait_for_all = [](Engine& e) -> Task<void> { co_await e.idle(); };
      sync_wait(wait_for_all(engine));
    });
    CHECK_THROWS_AS(engine.wait(v), WouldDeadlock);
  });
}

TEST_CASE("task: sync_wait inside an operation helps the engine", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Var outer;
    Cell inner(engine);
    double value = 0;
    engine.push({write(outer)}, [&](RunContext&) {
      auto push_late = [](Engine& engine, Cell inner) -> Task<double> {
        co_await sleep_for(3ms);  // longer than this thread looks for work: it has gone to sleep by then
        engine.push({write(inner.var())}, [inner](RunContext&) { inner.value() = 4; });
        co_await inner;
        co_return inner.value();
      };
      value = sync_wait(push_late(engine, inner));
    });
    engine.wait(outer);
    CHECK(value == 4);
  });
}

TEST_CASE("task: pushing in a task does not block, the next suspension waits for room", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     for (int form = 0; form < 3; ++form) {
                       Gate gate;
                       Cell cell(engine), free_cell(engine);
                       engine.push({write(cell.var())}, [&](RunContext&) { gate.wait(); });
                       std::atomic<bool> pushed{false};
                       std::atomic<bool> opened{false};
                       std::thread opener([&] {
                         becomes_true([&] { return pushed.load(); });
                         std::this_thread::sleep_for(10ms);
                         opened = true;
                         gate.open();
                       });
                       auto produce = [](Engine& engine, Cell cell, Cell free_cell, std::atomic<bool>& pushed,
                                         int form) -> Task<uint64_t> {
                         for (int i = 0; i < 500; ++i) engine.push({update(cell.var())}, [](RunContext&) {});
                         pushed = true;
                         if (form == 0) co_await free_cell;  // ready at once, but for the limit
                         if (form == 1) co_await number(1);
                         if (form == 2) co_await sleep_for(0ms);
                         EngineStats s = engine.stats();
                         co_return s.ops - s.completed;
                       };
                       uint64_t pending = sync_wait(produce(engine, cell, free_cell, pushed, form));
                       CHECK(opened);
                       CHECK(pending <= 48);
                       opener.join();
                       engine.wait_all();
                     }
                   },
                   {.max_in_flight = 64});
}

TEST_CASE("task: spawned tasks push beyond the limit without blocking the io threads", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     Gate gate;
                     Cell cell(engine);
                     std::atomic<int> pushed{0};
                     std::atomic<int> ended{0};
                     engine.push({write(cell.var())}, [&](RunContext&) { gate.wait(); });
                     auto produce = [](Engine& engine, Cell cell, std::atomic<int>& pushed,
                                       std::atomic<int>& ended) -> Task<void> {
                       for (int i = 0; i < 300; ++i) engine.push({update(cell.var())}, [](RunContext&) {});
                       ++pushed;
                       co_await cell;
                       ++ended;
                     };
                     for (int i = 0; i < 8; ++i) spawn(produce(engine, cell, pushed, ended), engine.io_executor());
                     // the first ones push all that they have, the others start when there is room; no io thread is
                     // held up
                     std::atomic<bool> io_answers{false};
                     CHECK(becomes_true([&] { return pushed > 0; }));
                     for (int i = 0; i < engine.options().io_threads; ++i) engine.post_io([&] { io_answers = true; });
                     CHECK(becomes_true([&] { return io_answers.load(); }));
                     CHECK(ended == 0);
                     gate.open();
                     CHECK(becomes_true([&] { return ended == 8; }));
                   },
                   {.max_in_flight = 64});
}

TEST_CASE("task: recording, engine and block path travel with the coroutine and with nobody else", "[engine]") {
  at_thread_counts([](Engine& engine) {
    struct Seen {
      std::atomic<int> wrong{0};
      std::atomic<int> ended{0};
    } seen;
    auto recorder = [](Engine& engine, Seen& seen, const char* path) -> Task<void> {
      thread_context().recording = true;
      thread_context().block_path = path;
      for (int i = 0; i < 20; ++i) {
        co_await sleep_for(100us);
        co_await number(1);
        ThreadContext& c = thread_context();
        seen.wrong += !c.recording || c.block_path != path || c.engine != engine.ref() || !c.in_task;
      }
      ++seen.ended;
    };
    auto bystander = [](Engine& engine, Seen& seen) -> Task<void> {
      for (int i = 0; i < 20; ++i) {
        ThreadContext& c = thread_context();
        seen.wrong += c.recording || c.block_path || c.engine != engine.ref() || !c.in_task;
        co_await sleep_for(100us);
      }
      ++seen.ended;
    };
    thread_context().recording = true;  // of this thread: a spawned task starts without
    for (int i = 0; i < 5; ++i) {
      spawn(recorder(engine, seen, intern("net." + std::to_string(i))), engine.io_executor());
      spawn(bystander(engine, seen), engine.io_executor());
    }
    thread_context().recording = false;
    CHECK(becomes_true([&] { return seen.ended == 10; }));
    CHECK(seen.wrong == 0);

    sync_wait(recorder(engine, seen, "here"));
    CHECK_FALSE(thread_context().recording);
    CHECK_FALSE(thread_context().in_task);
    CHECK(thread_context().block_path == nullptr);
    CHECK(seen.wrong == 0);
  });
}

TEST_CASE("task: a callee's context does not leak to its caller", "[engine]") {
  Watchdog watchdog;
  auto run = [](bool later) -> Task<bool> {
    auto callee = [](bool later) -> Task<void> {
      thread_context().training = true;
      if (later) co_await sleep_for(100us);
    };
    co_await callee(later);
    co_return thread_context().training;
  };
  CHECK_FALSE(sync_wait(run(false)));
  CHECK_FALSE(sync_wait(run(true)));
}

TEST_CASE("users row 50: the failure of a spawned task goes to the hook, once", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> calls{0};
    std::atomic<int> wrong{0};
    set_unobserved_error_hook([&](std::exception_ptr e) {
      try {
        std::rethrow_exception(e);
      } catch (int code) {
        wrong += code != 9;
      } catch (...) {
        ++wrong;
      }
      ++calls;
    });
    const int tasks = rounds(10000);
    for (int i = 0; i < tasks; ++i) spawn(fail_with(9, i % 2), engine.io_executor());
    spawn([]() -> Task<void> { co_return; }(), engine.io_executor());
    CHECK(becomes_true([&] { return calls == tasks; }));
    CHECK(wrong == 0);
    set_unobserved_error_hook({});
  });
}

TEST_CASE("users row 50: the hook gets an array's failure with where it was pushed", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::mutex mutex;
    std::vector<std::string> texts;
    set_unobserved_error_hook([&](std::exception_ptr e) {
      std::string text = "not a ValueError";
      try {
        std::rethrow_exception(e);
      } catch (const ValueError& x) {
        text = x.what();
      } catch (...) {
      }
      std::lock_guard lock(mutex);
      texts.push_back(text);
    });
    Cell cell(engine);
    const int line = __LINE__ + 1;
    engine.push({write(cell.var())}, [](RunContext&) { throw ValueError("[dot] fails"); }, {.label = {.name = "dot"}});
    auto wait = [](Cell cell) -> Task<void> { co_await cell; };
    spawn(wait(cell), engine.io_executor());
    CHECK(becomes_true([&] {
      std::lock_guard lock(mutex);
      return !texts.empty();
    }));
    set_unobserved_error_hook({});
    CHECK(texts ==
          std::vector<std::string>{"[dot] fails while running [dot], pushed at task_test.cpp:" + std::to_string(line)});
    CHECK_NOTHROW(engine.wait_all());  // the hook has it
  });
}

TEST_CASE("users row 50: without a hook the failure of a spawned task is printed", "[engine]") {
  const auto file = std::filesystem::temp_directory_path() / ("kaon_hook_test_" + std::to_string(::getpid()));
  auto written = [&] {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const int before = ::dup(STDERR_FILENO);
  const int fd = ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  REQUIRE(fd >= 0);
  ::dup2(fd, STDERR_FILENO);
  {
    Engine engine({.threads = 1});
    EngineScope scope(engine);
    auto fail = []() -> Task<void> {
      co_await sleep_for(100us);
      throw ValueError("[test] nobody awaits it");
    };
    spawn(fail(), engine.io_executor());
    becomes_true([&] { return written().ends_with('\n'); });
  }
  ::dup2(before, STDERR_FILENO);
  ::close(fd);
  ::close(before);
  CHECK(written() == "kaon: a spawned task failed: [test] nobody awaits it\n");
  std::filesystem::remove(file);
}

TEST_CASE("task: run_main waits for what was pushed and turns failures into 1", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> done{0};
    auto push_some = [](Engine& engine, std::atomic<int>& done, bool fails) -> Task<void> {
      for (int i = 0; i < 100; ++i) engine.push({}, [&done](RunContext&) { ++done; });
      if (fails) engine.push({}, [](RunContext&) { throw ValueError("[test] expected on stderr"); });
      co_return;
    };
    CHECK(run_main(push_some(engine, done, false)) == 0);
    CHECK(done == 100);
    CHECK(run_main(push_some(engine, done, true)) == 1);
    CHECK(run_main(fail_with(1, false)) == 1);
  });
}

}  // namespace task_test

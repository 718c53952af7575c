// The engine and Asio's contexts: who may go when.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>

#include "kaon/asio.h"
#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/task.h"
#include "support.h"

namespace asio_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
namespace asio = boost::asio;

namespace {

// An executor whose execute() comes back long after the work may have run, and says how many calls have not.
template <class Inner = asio::io_context::executor_type>
class LateExecutor {
 public:
  LateExecutor(Inner inner, std::atomic<int>& inside) noexcept : inner_(inner), inside_(&inside) {}

  template <class F>
  void execute(F&& work) const {
    ++*inside_;
    inner_.execute(std::forward<F>(work));
    std::this_thread::sleep_for(3ms);
    --*inside_;
  }
  template <class Property>
  auto query(const Property& p) const -> decltype(asio::query(std::declval<const Inner&>(), p)) {
    return asio::query(inner_, p);
  }
  template <class Property>
  auto require(const Property& p) const {
    return wrap(asio::require(inner_, p));
  }
  template <class Property>
  auto prefer(const Property& p) const {
    return wrap(asio::prefer(inner_, p));
  }
  bool operator==(const LateExecutor&) const noexcept = default;

 private:
  template <class Other>
  LateExecutor<Other> wrap(Other other) const {
    return LateExecutor<Other>(other, *inside_);
  }
  Inner inner_;
  std::atomic<int>* inside_;
};

// Goes beyond a budget until the gate opens. A Task's push does not block.
Task<void> fill(Engine& engine, Gate& gate) {
  IntrusivePtr<Buffer> big(new Buffer(100, cpu(), engine));
  engine.push({write(big->var)}, [&gate, big](RunContext&) { gate.wait(); });
  co_return;
}

}  // namespace

TEST_CASE("asio: a context whose run() has come back may go: no thread of the engine is inside it", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < 10; ++round) {
      std::atomic<int> inside{0};
      Gate gate;
      bool ended = false;
      auto io = std::make_unique<asio::io_context>(1);
      LateExecutor executor(io->get_executor(), inside);
      if (round % 2) {
        EngineScope scope(engine);
        EngineScope limited = scope.with_budget(1);
        sync_wait(fill(engine, gate));
        engine.async_admit(asio::bind_executor(executor, [&](std::exception_ptr) { ended = true; }));
        gate.open();
        io->run();
      } else {
        Cell cell(engine);
        engine.push({write(cell.var())}, [&gate](RunContext&) { gate.wait(); });
        auto read = [](Cell cell, Gate& gate, bool& ended) -> Task<void> {
          gate.open();
          co_await cell;
          ended = true;
        };
        AsioAdapter adapter(executor);
        spawn(read(cell, gate, ended), adapter);
        io->run();
      }
      CHECK(inside == 0);
      io.reset();
      CHECK(ended);
      engine.wait_all();
    }
  });
}

TEST_CASE("asio: a spawned Task is work of its context until it has ended", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> ended{0};
    auto run = [](Engine& engine, std::atomic<int>& ended) -> Task<void> {
      Cell cell(engine);
      co_await sleep_for(5ms);
      engine.push({write(cell.var())}, [](RunContext&) { std::this_thread::sleep_for(1ms); });
      co_await cell;
      co_await sleep_for(5ms);
      ++ended;
    };
    asio::io_context io(1);
    AsioAdapter adapter(io.get_executor());
    spawn(run(engine, ended), adapter);
    spawn(run(engine, ended), adapter);
    io.run();
    CHECK(ended == 2);
  });
}

TEST_CASE("asio: a stopped context that is run again ends what is pending, and may go then", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < 3; ++round) {
      Gate gate;
      Cell cell(engine);
      std::atomic<int> ended{0};
      auto io = std::make_unique<asio::io_context>(1);
      auto adapter = std::make_unique<AsioAdapter<asio::io_context::executor_type>>(io->get_executor());
      engine.push({write(cell.var())}, [&gate](RunContext&) { gate.wait(); });
      auto read = [](Cell cell, std::atomic<int>& ended) -> Task<void> {
        co_await cell;
        co_await sleep_for(2ms);
        ++ended;
      };
      auto sleep = [](std::atomic<int>& ended) -> Task<void> {
        co_await sleep_for(3ms);
        ++ended;
      };
      spawn(read(cell, ended), *adapter);
      spawn(sleep(ended), *adapter);
      EngineScope scope(engine);
      EngineScope limited = scope.with_budget(1);
      sync_wait(fill(engine, gate));
      engine.async_admit(asio::bind_executor(io->get_executor(), [&](std::exception_ptr) { ++ended; }));
      io->poll();
      io->stop();
      gate.open();
      io->restart();
      io->run();
      adapter.reset();
      io.reset();
      CHECK(ended == 3);
      engine.wait_all();
    }
  });
}

TEST_CASE("asio: a handler is not kept by a wait that could not begin", "[engine]") {
  if (sanitized) return;  // as for the other forks
  Watchdog watchdog;
  Engine engine({.threads = 1});
  Gate gate;
  engine.push({}, [&gate](RunContext&) { gate.wait(); });
  const pid_t child = fork();
  if (child == 0) {  // it has none of the engine's threads
    asio::io_context io(1);
    auto token = std::make_shared<int>();
    bool is_told = false;
    try {
      engine.async_admit(asio::bind_executor(io.get_executor(), [token](std::exception_ptr) {}));
    } catch (const StateError&) {
      is_told = true;
    }
    std::_Exit(is_told && token.use_count() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  gate.open();
  CHECK(status == 0);
}

}  // namespace asio_test

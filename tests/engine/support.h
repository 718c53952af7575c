// What the engine's cases share: engines of several sizes, a watchdog, a gate, a tiny array.
#pragma once

#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/await.h"
#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation.h"
#include "kaon/engine/operation/var.h"
#include "kaon/tests/support/schedule.h"

namespace kaon::test {

using namespace engine;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
// Fewer rounds where each is slow.
constexpr int rounds(int n) { return sanitized ? (n + 9) / 10 : n; }

// Ends the program with a message when it lives too long: a case that hangs fails by name.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit = 20s)
      : thread_([this, limit, name = Catch::getResultCapture().getCurrentTestName()] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, sanitized ? 4 * limit : limit, [this] { return done_; })) return;
          std::fprintf(stderr, "watchdog: \"%s\" hangs\n", name.c_str());
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

// Runs body(engine) with engines of 0 (serial), 1, 2 and 4 threads, at least `first` of them; with 0 also on engines
// that run what is ready in an order of chance. With --schedule in that order alone.
template <class F>
void at_thread_counts(int first, F&& body, EngineOptions options = {}) {
  auto run = [&](const std::string& kind) {
    INFO("engine with " << kind);
    Watchdog watchdog;
    Engine engine(options);
    EngineScope scope(engine);
    body(engine);
  };
  const uint64_t chosen = schedule_seed();
  for (int threads : {0, 1, 2, 4}) {
    if (chosen || threads < first) continue;
    options.threads = threads;
    run(std::to_string(threads) + " threads");
  }
  for (uint64_t seed : chosen ? std::vector{chosen} : std::vector<uint64_t>{1, 2}) {
    if (first > 0) break;
    options.schedule = Schedule::random(seed);
    run("the schedule random(" + std::to_string(seed) + ")");
  }
}
template <class F>
void at_thread_counts(F&& body) {
  at_thread_counts(0, std::forward<F>(body));
}

// Closed until opened, then open for good.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

// Looks every millisecond, without helping the engine, for up to five seconds.
template <class F>
bool becomes_true(F&& condition) {
  auto until = Clock::now() + (sanitized ? 20s : 5s);
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// A number with its var: an array as far as the engine is concerned.
class Cell {
 public:
  explicit Cell(Engine& engine, double value = 0) : state_(std::make_shared<State>()) {
    state_->engine = &engine;
    state_->value = value;
  }
  Var& var() const { return state_->var; }
  Engine& engine() const { return *state_->engine; }
  double& value() const { return state_->value; }
  ReadyAwaiter<Cell> operator co_await() const { return ReadyAwaiter<Cell>(*this); }

 private:
  struct State {
    Var var;
    double value = 0;
    Engine* engine = nullptr;
  };
  std::shared_ptr<State> state_;
};

// What this process has in memory.
inline size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

// Takes a core for a while.
inline void spin_for(std::chrono::nanoseconds time) {
  for (auto until = Clock::now() + time; Clock::now() < until;) cpu_pause();
}

}  // namespace kaon::test

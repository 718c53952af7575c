// Threads that the system does not start.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "kaon/ops/functions.h"
#include "kaon/tests/engine/support.h"
#include "loader_training.h"

namespace threads_test {

namespace {
std::atomic<int> g_threads_left{-1};      // until one is refused; -1: none is
std::atomic<bool> g_refuses_later{true};  // all after it as well
std::atomic<int> g_asked{0};
}  // namespace

// The program's takes the place of the library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* of) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  ++g_asked;
  int left = g_threads_left.load();
  while (left >= 0 && !(left == 0 && g_refuses_later) && !g_threads_left.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0 ? EAGAIN : create(thread, attributes, run, of);
}

using namespace kaon;
using namespace kaon::test;

TEST_CASE("faults: an engine whose threads cannot be started throws StateError", "[faults]") {
  Watchdog watchdog;
  for (int threads : {0, 1, 4}) {
    for (int started = 0; started < threads + 2; ++started) {
      INFO(started << " of " << threads << " and 2 threads can be started");
      g_threads_left = started;
      std::string text;
      try {
        Engine engine({.threads = threads, .io_threads = 2});
      } catch (const StateError& e) {
        text = e.what();
      }
      g_threads_left = -1;
      CHECK_THAT(text, Catch::Contains("[Engine] cannot start thread"));
    }
    Engine engine({.threads = threads, .io_threads = 2});
    EngineScope scope(engine);
    g_threads_left = 0;  // none is needed from here on
    const float sum = nd.ones({100000}).sum().asscalar<float>();
    g_threads_left = -1;
    CHECK(sum == 100000);
  }
}

namespace {

constexpr EngineOptions small_pools{.threads = 2, .io_threads = 2};

Values train_on_own_engine() {
  Engine engine(small_pools);
  EngineScope scope(engine);
  return train_from_loader(false).back();
}

template <class F>
bool lacks_threads(F&& f) {
  try {
    f();
    return false;
  } catch (const StateError& e) {
    return std::string_view(e.what()).find("cannot start thread") != std::string_view::npos;
  }
}

}  // namespace

// All threads of a training loop are started by its engine, also those that load.
TEST_CASE("faults: a training loop bears that any of its threads cannot be started", "[faults]") {
  Watchdog watchdog(60s);
  const Values expected = train_on_own_engine();
  g_asked = 0;
  REQUIRE(train_on_own_engine() == expected);
  const int threads = g_asked;
  REQUIRE(threads == small_pools.threads + small_pools.io_threads);
  for (const bool refuses_later : {false, true}) {
    for (int started = 0; started < threads; ++started) {
      INFO(started << " of " << threads << " threads can be started" << (refuses_later ? "" : ", then all but one"));
      g_refuses_later = refuses_later;
      g_threads_left = started;
      const bool refused = lacks_threads([] { train_on_own_engine(); });
      g_threads_left = -1;
      g_refuses_later = true;
      CHECK(refused);
      CHECK(train_on_own_engine() == expected);
    }
  }
}

// In a child of a fork, where there is no default engine yet.
TEST_CASE("faults: a default engine whose threads cannot be started is made at a later call", "[faults]") {
  Watchdog watchdog(60s);
  const Values expected = train_from_loader(false).back();
  const EngineOptions& options = Engine::process_default().options();
  const int threads = Engine::process_default().stats().threads + options.io_threads;
  for (int started = 0; started < threads; ++started) {
    INFO(started << " of " << threads << " threads can be started");
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      int code = 0;
      try {
        g_threads_left = started;
        for (int i = 0; i < 2; ++i) {
          if (i == 1) g_threads_left = started;
          if (!lacks_threads([] { train_from_loader(false); })) code = 1;
        }
        g_threads_left = -1;
        if (train_from_loader(false).back() != expected) code = 2;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
        code = 3;
      }
      std::_Exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

}  // namespace threads_test

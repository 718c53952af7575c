// Threads that the system does not start.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>

#include "kaon/ops/functions.h"
#include "kaon/tests/engine/support.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<int> g_threads_left{-1};  // until one is refused, and all after it; -1: none
}

// The program's takes the place of the library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* of) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  int left = g_threads_left.load();
  while (left > 0 && !g_threads_left.compare_exchange_weak(left, left - 1)) {
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

#endif

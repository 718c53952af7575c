// The engine where there is no memory: every operation is settled, every wait ends, nothing ends the process.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <new>
#include <thread>

#include "harness.h"
#include "kaon/engine/base/coroutine_queue.h"
#include "kaon/engine/storage.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/tests/engine/support.h"

namespace engine_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

// Has no memory, and leaves its thread without.
struct FailsForMemory {
  static constexpr OpTraits traits{.name = "test_fails_for_memory", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(0, c.shape(0), c.dtype()); }
};
void run_cpu(const FailsForMemory&, KernelContext&) {
  lose_memory_of_this_thread();
  throw std::bad_alloc();
}
constinit const OpDef FailsForMemory::def = make_op_def<FailsForMemory>();

// The same for a call that may leave threads without memory: they have some again afterwards.
template <class F>
bool lacks_memory_once(F&& f) {
  struct Again {
    ~Again() { every_thread_has_memory(); }
  };
  return lacks_memory([&] {
    const Again again;
    f();
  });
}

}  // namespace

TEST_CASE("faults: a failure for want of memory is recorded without memory", "[faults]") {
  at_thread_counts(0, [](Engine& engine) {
    const NDArray x = nd.ones({1000});
    x.wait_to_read();
    for (int i = 0; i < 300; ++i) {  // more than the C++ runtime's emergency memory has room for
      NDArray y;
      CHECK(lacks_memory_once([&] {
        y = nd.call(FailsForMemory{}, x);
        (y + x).wait_to_read();
      }));
      CHECK(lacks_memory_once([&] { y.wait_to_read(); }));
      CHECK(lacks_memory_once([&] { y.wait_to_read(); }));  // again
      every_thread_has_memory();
      CHECK(nd.ones({1000}).sum().asscalar<float>() == 1000);
    }
    lacks_memory_once([&] { engine.wait_all(); });
    CHECK_NOTHROW(engine.wait_all());
    CHECK(engine.stats().completed == engine.stats().ops);
  });
}

TEST_CASE("faults: failures without memory reach waitall, and failed arrays are kept", "[faults]") {
  at_thread_counts(0, [](Engine& engine) {
    std::vector<NDArray> kept;
    const NDArray x = nd.ones({1000});
    x.wait_to_read();
    for (int i = 0; i < 500; ++i) {
      NDArray y;
      CHECK_FALSE(lacks_memory_once([&] { y = nd.call(FailsForMemory{}, x); }));
      kept.push_back(y);
    }
    int told = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK((lacks_memory_once([&] {
               try {
                 engine.wait_all();
               } catch (const AggregateError&) {
                 ++told;
                 throw;
               }
             }) ||
             told == 1));
    }
    CHECK(told == 1);
    for (const NDArray& y : kept) CHECK(lacks_memory_once([&] { y.wait_to_read(); }));
    CHECK(nd.ones({10}).sum().asscalar<float>() == 10);
  });
}

TEST_CASE("faults: without memory on the waiting thread a failure arrives, if with less text", "[faults]") {
  at_thread_counts(0, [](Engine& engine) {
    if (engine.options().schedule.kind != Schedule::Kind::arrival) return;  // the waiting thread runs everything
    const NDArray table = nd.ones({2, 3}), index = nd.array({7});
    const NDArray row = nd.take(table, index, {.mode = IndexMode::raise});
    const NDArray heir = row * 2;
    while (engine.stats().completed < engine.stats().ops) std::this_thread::yield();
    bool is_index_error = false;
    {
      const NoMemoryHere none;
      try {
        heir.wait_to_read();
      } catch (const IndexError&) {
        is_index_error = true;
      } catch (const MemoryError&) {
      } catch (const std::bad_alloc&) {
      }
    }
    CHECK(is_index_error);
    CHECK_THROWS_AS(heir.wait_to_read(), IndexError);
  });
}

TEST_CASE("faults: parallel_for works without memory for its invitations", "[faults]") {
  at_thread_counts(0, [](Engine& engine) {
    Var v;
    std::vector<int> pieces(64);
    for (int i = 0; i < 50; ++i) {
      std::fill(pieces.begin(), pieces.end(), 0);
      engine.push({write(v)}, [&](RunContext& c) {
        const NoMemoryHere none;
        c.parallel_for(64, 1, [&](int64_t at, int64_t) { ++pieces[size_t(at)]; });
      });
      engine.wait(v);
      CHECK(std::count(pieces.begin(), pieces.end(), 1) == 64);
    }
    engine.wait_all();
  });
}

// The pool is emptied first, so that it asks the system.
TEST_CASE("faults: what the storage keeps is given back before a call throws for want of memory", "[faults]") {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  { nd.ones({8 << 20}).wait_to_read(); }
  CHECK(Storage::cpu().stats().cached >= size_t(32) << 20);
  std::vector<NDArray> kept;
  bool thrown = false;
  {
    kept.reserve(100000);
    const NoMemoryHere none;
    try {
      for (int i = 0; i < 100000; ++i) kept.push_back(NDArray::empty({1}));
    } catch (const MemoryError&) {
      thrown = true;
    }
  }
  CHECK(thrown);
  CHECK(Storage::cpu().stats().cached < size_t(32) << 20);
  CHECK(nd.ones({10}).sum().asscalar<float>() == 10);
  kept.clear();
  // and what is freed then goes back as well, until the system has given as much again
  { nd.ones({16 << 20}).wait_to_read(); }
  CHECK(Storage::cpu().stats().cached >= size_t(64) << 20);
}

TEST_CASE("faults: a push beyond the limit, and whoever waits for room, need no memory", "[faults]") {
  EngineOptions options;
  options.max_in_flight = 8;
  options.max_bytes = 4096;
  at_thread_counts(
      1,
      [](Engine& engine) {
        for (int i = 0; i < 200; ++i) {
          std::vector<NDArray> kept;
          for (int k = 0; k < 20; ++k) kept.push_back(nd.ones({64}));
          for (const NDArray& a : kept) a.wait_to_read();
        }
        engine.wait_all();
        CHECK(engine.stats().completed == engine.stats().ops);
      },
      options);
}

TEST_CASE("faults: a queue of coroutines grows ahead of need, and half of it takes no memory", "[faults]") {
  std::array<char, 300> places{};
  const auto handle = [&](size_t i) { return std::coroutine_handle<>::from_address(&places[i]); };
  CoroutineQueue queue;
  size_t pushed = 0, popped = 0;
  const auto push = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) queue.push(handle(pushed++));
  };
  const auto pop = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) CHECK(queue.pop() == handle(popped++));
  };
  push(50);  // there is room for 128 now
  pop(40);
  bool is_full = false;
  {
    const NoMemoryHere none;
    push(118);  // around the end
    is_full = lacks_memory([&] { queue.push(handle(0)); });
  }
  CHECK(is_full);
  push(60);
  pop(188);
  CHECK(queue.is_empty());
  CHECK_FALSE(queue.pop());
}

}  // namespace engine_test

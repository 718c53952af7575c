// Awaits that are ready at once must not grow the stack, whatever the compiler makes of them: so this file is never
// optimised, as tests/CMakeLists.txt says (an unoptimised coroutine makes no tail calls).

#include <cstdint>

#include "kaon/engine/generator.h"
#include "kaon/tests/engine/support.h"

namespace ready_awaits_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// A type of this file, so that nothing here is shared with code that another file compiled otherwise.
struct Value {
  int n = 0;
};

// How far apart the stack frames were.
struct StackSpan {
  uintptr_t lowest = UINTPTR_MAX;
  uintptr_t highest = 0;
  void look() {
    auto at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));  // ASan keeps variables elsewhere
    lowest = std::min(lowest, at);
    highest = std::max(highest, at);
  }
  uintptr_t bytes() const { return highest - lowest; }
};

Task<Value> at_once(StackSpan& span, int n) {
  span.look();
  Value v;
  v.n = n & 1;
  co_return v;
}

Task<Value> many_tasks(StackSpan& span, int n) {
  Value sum;
  for (int i = 0; i < n; ++i) {
    Value v = co_await at_once(span, i);
    sum.n += v.n;
  }
  co_return sum;
}

AsyncGenerator<Value> many_values(StackSpan& span, int n) {
  for (int i = 0; i < n; ++i) {
    span.look();
    Value v;
    v.n = i & 1;
    co_yield v;
  }
}

Task<Value> take_all(StackSpan& span, int n) {
  Value sum;
  auto values = many_values(span, n);
  while (auto v = co_await values.next()) sum.n += v->n;
  co_return sum;
}

Task<Value> many_ready_cells(StackSpan& span, Cell cell, int n) {
  Value sum;
  for (int i = 0; i < n; ++i) {
    co_await cell;
    span.look();
    sum.n += i & 1;
  }
  co_return sum;
}

Task<Value> many_pending_cells(StackSpan& span, Engine& engine, Cell cell, int n) {
  Value sum;
  for (int i = 0; i < n; ++i) {
    engine.push({write(cell.var())}, [](RunContext&) {});
    co_await cell;
    span.look();
    sum.n += i & 1;
  }
  co_return sum;
}

constexpr int awaits = 2'000'000;

}  // namespace

TEST_CASE("users row 51: two million ready awaits do not grow the stack", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  StackSpan span;
  CHECK(sync_wait(many_tasks(span, awaits)).n == awaits / 2);
  CHECK(span.bytes() < 64 * 1024);
}

TEST_CASE("users row 51: two million ready values of a generator do not grow the stack", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  StackSpan span;
  CHECK(sync_wait(take_all(span, awaits)).n == awaits / 2);
  CHECK(span.bytes() < 64 * 1024);
}

TEST_CASE("users row 51: two million awaits of a ready array do not grow the stack", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  StackSpan span;
  Cell cell(engine);
  CHECK(sync_wait(many_ready_cells(span, cell, awaits)).n == awaits / 2);
  CHECK(span.bytes() < 64 * 1024);
}

TEST_CASE("task: awaits of arrays that become ready at about the same moment do not grow the stack", "[engine]") {
  at_thread_counts([](Engine& engine) {
    StackSpan span;
    Cell cell(engine);
    const int n = rounds(20'000);
    CHECK(sync_wait(many_pending_cells(span, engine, cell, n)).n == n / 2);
    CHECK(span.bytes() < 64 * 1024);
  });
}

}  // namespace ready_awaits_test

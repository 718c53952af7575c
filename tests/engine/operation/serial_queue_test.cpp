// Operations that are not run beside each other: GPU launches use this.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "kaon/engine/engine.h"
#include "kaon/engine/operation/serial_queue.h"
#include "kaon/engine/operation/var.h"

namespace serial_queue_test {

using namespace kaon;
using namespace kaon::engine;

namespace {

template <size_t number, class F>
void push_on_queue(Engine& engine, std::initializer_list<Access> accesses, F body,
                   Priority priority = Priority::normal) {
  static const OpType type = [] {
    OpType t = OpBody<F>::type;
    t.serial_queue = [](const OpNode&) noexcept { return number; };
    return t;
  }();
  engine.push_as(type, std::span<const Access>(accesses.begin(), accesses.size()), std::move(body),
                 {.priority = priority});
}

// Counts who is there at once.
struct Room {
  std::atomic<int> inside{0}, most{0};
  std::atomic<int> visits{0};
  void visit() {
    const int n = inside.fetch_add(1) + 1;
    int m = most.load();
    while (m < n && !most.compare_exchange_weak(m, n)) {
    }
    for (int i = 0; i < 20; ++i) visits.load();
    inside.fetch_sub(1);
    visits.fetch_add(1);
  }
};

}  // namespace

TEST_CASE("serial queue: operations of one queue are run one at a time, all of them, on 1 to 8 threads",
          "[serial_queue]") {
  for (int threads : {1, 2, 3, 8}) {
    CAPTURE(threads);
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Room rooms[2];
    std::atomic<int> beside{0};
    constexpr int pushers = 3, each = 3000;
    std::vector<std::thread> all;
    for (int p = 0; p < pushers; ++p) {
      all.emplace_back([&, p] {
        Var vars[4];
        for (int i = 0; i < each; ++i) {
          Var &a = vars[size_t(i) % 4], &b = vars[size_t(i * 7 + p) % 4];
          const Priority priority = i % 5 == 0 ? Priority::high : i % 7 == 0 ? Priority::low : Priority::normal;
          if (i % 3 == 0) {
            engine.push({write(a)}, [&](RunContext&) { ++beside; });
          } else if (i % 3 == 1) {
            push_on_queue<0>(
                engine, {write(a), read(b)}, [&](RunContext&) { rooms[0].visit(); }, priority);
          } else {
            push_on_queue<1>(
                engine, {read(a)}, [&](RunContext&) { rooms[1].visit(); }, priority);
          }
          if (i % 500 == 0) engine.wait(a);
        }
        for (Var& v : vars) engine.wait(v, AccessMode::write);
      });
    }
    for (std::thread& t : all) t.join();
    engine.wait_all();
    CHECK(beside == pushers * each / 3);
    for (const Room& room : rooms) {
      CHECK(room.visits == pushers * each / 3);
      CHECK(room.most == 1);
    }
  }
}

TEST_CASE("serial queue: operations of a chain keep their order, and one that fails lets the next ones run",
          "[serial_queue]") {
  for (int threads : {2, 4}) {
    CAPTURE(threads);
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Var chain, other;
    std::vector<int> order;
    for (int i = 0; i < 500; ++i) {
      push_on_queue<0>(engine, {update(chain)}, [&order, i](RunContext&) { order.push_back(i); });
      push_on_queue<0>(engine, {write(other)}, [i](RunContext&) {
        if (i % 2) throw std::runtime_error("planted");
      });
    }
    engine.wait(chain);
    CHECK_THROWS_WITH(engine.wait(other), Catch::Contains("planted"));
    CHECK(order.size() == 500);
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK_THROWS(engine.wait_all());
  }
}

TEST_CASE("serial queue: an operation may wait for one of another queue", "[serial_queue]") {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  Var a, b;
  int seen = 0;
  push_on_queue<0>(engine, {write(a)}, [&](RunContext&) {
    push_on_queue<1>(engine, {write(b)}, [&](RunContext&) { ++seen; });
    engine.wait(b);
    ++seen;
  });
  engine.wait(a);
  CHECK(seen == 2);
}

}  // namespace serial_queue_test

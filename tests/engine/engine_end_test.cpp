// Arrays that outlive their engine.
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/task.h"
#include "kaon/tests/engine/support.h"

namespace engine_end_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

IntrusivePtr<Buffer> written(Engine& engine, int value) {
  IntrusivePtr<Buffer> buffer(new Buffer(sizeof(int), cpu(), engine));
  engine.push({write(buffer->var)}, [buffer, value](RunContext&) { *static_cast<int*>(buffer->ensure()) = value; });
  return buffer;
}

// What a coroutine awaits.
struct Array {
  IntrusivePtr<Buffer> buffer;
  Var& var() const { return buffer->var; }
  Engine& engine() const { return *buffer->engine; }
  ReadyAwaiter<Array> operator co_await() const { return ReadyAwaiter<Array>(*this); }
};

// Ended by another thread, which takes the operation from `begun`.
struct Late {
  Engine* engine;
  std::atomic<OpNode*>* begun;
};
constexpr OpType late_type{
    .run =
        [](OpNode& op, RunContext&) {
          std::atomic<OpNode*>& begun = *OpBody<Late>::get(op).begun;
          begun = &op;
          begun.notify_one();
        },
    .destroy = OpBody<Late>::destroy,
    .ends_later = true,
};

}  // namespace

TEST_CASE("engine end: what it computed can be read, and an operation says why it cannot be pushed", "[engine]") {
  at_thread_counts([](Engine& around) {
    IntrusivePtr<Buffer> buffer;
    {
      Engine engine({.threads = around.stats().threads});
      buffer = written(engine, 7);
      CHECK(&*buffer->engine == &engine);
      CHECK_FALSE(buffer->engine->is_gone());
    }
    CHECK(buffer->engine->is_gone());
    CHECK(&*buffer->engine == &Engine::ended());
    int value = 0;
    CHECK(buffer->engine->read_now(buffer->var, [&] { value = *static_cast<int*>(buffer->ensure()); }));
    CHECK(value == 7);
    CHECK_NOTHROW(buffer->engine->wait(buffer->var));
    CHECK_NOTHROW(buffer->engine->wait(buffer->var, AccessMode::update));
    CHECK_NOTHROW(buffer->engine->wait_all());
    CHECK_THROWS_AS(buffer->engine->push({read(buffer->var)}, [](RunContext&) {}), StateError);
    CHECK_THROWS_WITH(buffer->engine->push({read(buffer->var)}, [](RunContext&) {}, {.label = {.name = "twice"}}),
                      Contains("[twice] the engine of this array has ended") && Contains("engine_end_test.cpp"));
    CHECK_THROWS_AS(buffer->engine->post_io([] {}), StateError);
  });
}

TEST_CASE("engine end: an engine at the same address is another one", "[engine]") {
  std::optional<Engine> engine;
  std::vector<IntrusivePtr<Buffer>> buffers;
  for (int i = 0; i < 20; ++i) {
    engine.emplace(EngineOptions{.threads = i % 3});
    buffers.push_back(written(*engine, i));
    CHECK(&*buffers.back()->engine == &*engine);
    for (int k = 0; k < i; ++k) CHECK(buffers[size_t(k)]->engine->is_gone());
  }
  engine.reset();
  CHECK(buffers.back()->engine->is_gone());
}

TEST_CASE("engine end: a failed array still throws its failure", "[engine]") {
  IntrusivePtr<Buffer> buffer;
  {
    Engine engine({.threads = 1});
    buffer = IntrusivePtr<Buffer>(new Buffer(4, cpu(), engine));
    engine.push({write(buffer->var)}, [](RunContext&) { throw ValueError("[op] bad"); });
  }
  CHECK_THROWS_AS(buffer->engine->wait(buffer->var), ValueError);
  CHECK_THROWS_AS(buffer->engine->read_now(buffer->var, [] {}), ValueError);
}

TEST_CASE("engine end: coroutines await its arrays", "[engine]") {
  Array array;
  {
    Engine engine({.threads = 2});
    array.buffer = written(engine, 3);
  }
  auto body = [](Array a) -> Task<int> {
    Array ready = co_await a;
    co_return *static_cast<int*>(ready.buffer->ensure());
  };
  CHECK(sync_wait(body(array)) == 3);
}

TEST_CASE("engine end: a shared read lease on its vars ends under any engine, and twice", "[engine]") {
  Var a, b;
  IntrusivePtr<SharedReadLease> lease;
  {
    Engine engine({.threads = 2});
    lease = IntrusivePtr<SharedReadLease>(new SharedReadLease(engine.ref()));
    REQUIRE(lease->begin({&a, &b}));
  }
  Engine other({.threads = 1});
  EngineScope scope(other);
  lease->end();
  CHECK(lease->has_ended());
  lease->end();
}

TEST_CASE("shared read lease: a writer that its end lets go on runs on the vars' engine, wherever the owner is",
          "[engine]") {
  Watchdog watchdog(60s);
  Engine engine({.threads = 2}), other({.threads = 2});
  Var a, b;
  std::atomic<int> elsewhere{0};
  std::atomic<bool> over{false};
  std::thread owner([&] {
    EngineScope scope(other);
    while (!over) {
      IntrusivePtr<SharedReadLease> lease(new SharedReadLease(engine.ref()));
      if (lease->begin({&a, &b})) lease->end();
    }
  });
  for (int i = 0; i < rounds(20000); ++i) {
    engine.push({update(a)}, [&](RunContext&) { elsewhere += &Engine::current() != &engine; });
    if (i % 100 == 0) engine.wait(a);
  }
  over = true;
  owner.join();
  engine.wait_all();
  CHECK(elsewhere == 0);
  CHECK(other.stats().completed == 0);
}

// More threads than cores: the one that ends an operation is often stopped where it is about to leave the engine.
TEST_CASE("engine end: a thread that ends the last operations has left the engine before it is gone", "[engine]") {
  Watchdog watchdog(60s);
  for (const bool makes_ready : {true, false}) {
    const int engines = rounds(1000);  // of each program
    for (const int threads : {0, 1}) {
      std::atomic<int> ran{0};
      const auto begin_and_end = [&] {
        std::atomic<OpNode*> begun{nullptr};
        std::thread completer([&] {
          for (int i = 0; i < engines; ++i) {
            begun.wait(nullptr);
            OpNode* const op = begun.exchange(nullptr);
            OpBody<Late>::get(*op).engine->complete(*op, nullptr);
          }
        });
        for (int i = 0; i < engines; ++i) {
          Var a;
          Engine engine({.threads = threads});
          const Access writes_a[] = {write(a)};
          engine.push_as(late_type, writes_a, Late{&engine, &begun}, {});
          if (makes_ready) engine.push({update(a)}, [&](RunContext&) { ++ran; });
        }
        completer.join();
      };
      std::vector<std::thread> programs;
      for (int i = 0; i < 8; ++i) programs.emplace_back(begin_and_end);
      for (std::thread& t : programs) t.join();
      CHECK(ran == (makes_ready ? 8 * engines : 0));
    }
  }
}

}  // namespace engine_end_test

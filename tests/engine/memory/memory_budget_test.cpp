// Budgets: how much the arrays of a scope may take.
#include <atomic>
#include <thread>
#include <vector>

#include "kaon/engine/task.h"
#include "kaon/tests/engine/arrays.h"

namespace memory_budget_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

double run_chain(Engine& engine, int steps, Peak& peak) {
  Array last;
  for (int i = 0; i < steps; ++i) {
    Array next = make(engine);
    push_step(engine, last, next, peak);
    last = next;
  }
  engine.wait(last->var);
  return static_cast<double*>(last->ensure())[0];
}

}  // namespace

TEST_CASE("users row 10: 20,000 steps without a wait stay within the engine's budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts(0,
                   [](Engine& engine) {
                     Peak peak;
                     CHECK(run_chain(engine, rounds(20000), peak) == rounds(20000));
                     CHECK(peak.most <= budget + unit);
                     engine.wait_all();
                     CHECK(engine.active_budget()->used() == 0);
                     CHECK(Storage::cpu().stats().live == peak.base);
                   },
                   {.max_bytes = budget});
}

namespace {

// Three operations on arrays of several sizes, which all read the same weights; adds the result to `sum`.
void push_forward(Engine& engine, const Array& weights, const Array& sum, int step, Peak& peak) {
  auto first = [](const Array& a) { return static_cast<double*>(a->ensure()); };
  Array x = make(engine, 4 * unit), h = make(engine, 2 * unit), y = make(engine);
  engine.push({read(weights->var), write(x->var)}, [=, &peak](RunContext&) {
    first(x)[0] = first(weights)[0] / (step + 1);
    peak.look();
  });
  engine.push({read(weights->var), read(x->var), write(h->var)}, [=, &peak](RunContext&) {
    first(h)[0] = first(x)[0] * first(weights)[0] + step;
    peak.look();
  });
  engine.push({read(h->var), write(y->var)}, [=, &peak](RunContext&) {
    first(y)[0] = 1 / first(h)[0];
    peak.look();
  });
  engine.push({read(y->var), update(sum->var)}, [=](RunContext&) { first(sum)[0] += first(y)[0]; });
}

double run_forwards(Engine& engine, int steps, bool syncs, Peak& peak) {
  Array weights = make(engine), sum = make(engine);
  for (const Array& a : {weights, sum}) {
    engine.push({write(a->var)}, [a](RunContext&) { static_cast<double*>(a->ensure())[0] = 0.75; });
  }
  for (int i = 0; i < steps; ++i) {
    push_forward(engine, weights, sum, i, peak);
    if (syncs) engine.wait_all();
  }
  engine.wait(sum->var);
  return static_cast<double*>(sum->ensure())[0];
}

}  // namespace

TEST_CASE("users row 10: 20,000 forwards without a wait stay within the budget and give what waiting ones give",
          "[engine]") {
  constexpr size_t budget = 32 * unit;
  at_thread_counts(0,
                   [](Engine& engine) {
                     Peak peak;
                     const double expected = run_forwards(engine, rounds(20000), true, peak);
                     CHECK(run_forwards(engine, rounds(20000), false, peak) == expected);
                     CHECK(peak.most <= budget + 4 * unit);  // the largest result
                     engine.wait_all();
                     CHECK(engine.active_budget()->used() == 0);
                   },
                   {.max_bytes = budget});
}

TEST_CASE("users row 10: independent steps of several threads stay within the scope's budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts([](Engine& engine) {
    Peak peak;
    EngineScope scope(engine);
    EngineScope limited = scope.with_budget(budget);
    MemoryBudget* const of_scope = engine.active_budget();
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        thread_context().budget = of_scope;
        for (int i = 0; i < rounds(2000); ++i) push_step(engine, {}, make(engine), peak);
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_all();
    CHECK(peak.most <= budget + 2 * unit);
    CHECK(limited.used_bytes() == 0);
  });
}

TEST_CASE("users row 10: budgets nest, and end with their scopes", "[engine]") {
  at_thread_counts([](Engine& engine) {
    EngineScope scope(engine);
    CHECK(engine.active_budget() == nullptr);
    EngineScope outer = scope.with_budget(8 * unit);
    Array kept = make(engine);
    Array outlives;
    {
      EngineScope inner = outer.with_budget(2 * unit);
      CHECK(inner.used_bytes() == 0);
      Array both = make(engine);
      CHECK(inner.used_bytes() == unit);
      CHECK(outer.used_bytes() == 2 * unit);
      Peak peak;
      CHECK(run_chain(engine, rounds(500), peak) == rounds(500));
      CHECK(peak.most <= 3 * unit);  // `both` has no memory yet
      engine.wait_all();
      outlives = make(engine);
      CHECK(inner.used_bytes() == 2 * unit);
      {
        EngineScope loose = inner.with_budget(0);  // no limit of its own, inside those around it
        Peak again;
        CHECK(run_chain(engine, rounds(500), again) == rounds(500));
        CHECK(again.most <= 3 * unit);
      }
      engine.wait_all();
    }
    CHECK(outer.used_bytes() == 2 * unit);
    Peak peak;
    CHECK(run_chain(engine, rounds(500), peak) == rounds(500));
    CHECK(peak.most <= 8 * unit);
    engine.wait_all();
    outlives = {};
    kept = {};
    CHECK(outer.used_bytes() == 0);
    Engine other({.threads = 1, .max_bytes = 5 * unit});
    EngineScope elsewhere(other);  // has limits of its own
    CHECK(other.active_budget() != nullptr);
    Array not_ours = make(other);
    CHECK(outer.used_bytes() == 0);
  });
}

TEST_CASE("users row 11: a Task that asks before each push stays within the budget", "[engine]") {
  constexpr size_t budget = 16 * unit;
  at_thread_counts([](Engine& engine) {
    Peak peak;
    auto produce = [](Engine& engine, Peak& peak, bool asks) -> Task<double> {
      EngineScope scope(engine);
      EngineScope limited = scope.with_budget(budget);
      Cell always(engine);
      Array last;
      for (int i = 0; i < rounds(5000); ++i) {
        if (asks) co_await engine.admit();
        else co_await always;  // any suspension point waits for room
        Array next = make(engine);
        push_step(engine, last, next, peak);
        last = next;
      }
      co_await engine.idle();
      co_return static_cast<double*>(last->ensure())[0];
    };
    CHECK(sync_wait(produce(engine, peak, true)) == rounds(5000));
    CHECK(peak.most <= budget + unit);
    CHECK(sync_wait(produce(engine, peak, false)) == rounds(5000));
    CHECK(peak.most <= budget + unit);
    CHECK(Storage::cpu().stats().live == peak.base);
  });
}

namespace {
void run_unread_chain(int steps) {
  at_thread_counts([steps](Engine& engine) {
    Peak peak;
    Array b = make(engine), a;
    push_step(engine, {}, b, peak);
    const size_t before = resident_bytes();
    a = b;
    for (int i = 0; i < steps; ++i) {
      Array next = make(engine, 1024);
      engine.push({read(a->var), read(b->var), write(next->var)}, [a, b, next](RunContext&) {
        static_cast<double*>(next->ensure())[0] =
            static_cast<double*>(a->ensure())[0] + static_cast<double*>(b->ensure())[0];
      });
      a = next;
    }
    const size_t after = resident_bytes();
    CHECK(after < before + (size_t(64) << 20));
    engine.wait(a->var);
    CHECK(static_cast<double*>(a->ensure())[0] == steps + 1);
  });
}
}  // namespace

TEST_CASE("users row 12: a chain of 20,000 steps that nobody reads takes bounded memory", "[engine]") {
  run_unread_chain(rounds(20000));
}
TEST_CASE("users row 12: a chain of 1,000,000 steps that nobody reads takes bounded memory", "[engine][slow]") {
  run_unread_chain(rounds(1000000));
}

}  // namespace memory_budget_test

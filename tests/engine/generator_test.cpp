// AsyncGenerator: values one at a time, waits between them, failures, early end.
#include <memory>
#include <string>

#include "kaon/engine/generator.h"
#include "support.h"

namespace generator_test {

using namespace kaon;
using namespace kaon::test;

namespace {

enum class Pace { at_once, now_and_then, always_later };

AsyncGenerator<int> count_to(int n, Pace pace) {
  for (int i = 1; i <= n; ++i) {
    if (pace == Pace::always_later || (pace == Pace::now_and_then && i % 3 == 0)) co_await sleep_for(50us);
    co_yield i;
  }
}

AsyncGenerator<std::shared_ptr<std::string>> fails_after(int n, std::shared_ptr<std::string> text, bool later) {
  for (int i = 0; i < n; ++i) co_yield text;
  if (later) co_await sleep_for(50us);
  throw std::string("at the end");
}

AsyncGenerator<double> values_of(Engine& engine, Cell cell, int n) {
  for (int i = 0; i < n; ++i) {
    engine.push({update(cell.var())}, [cell](RunContext&) { cell.value() += 0.5; });
    co_await cell;
    co_yield cell.value();
  }
}

Task<int> sum_of(AsyncGenerator<int> numbers) {
  int sum = 0;
  while (auto n = co_await numbers.next()) sum += *n;
  auto after = co_await numbers.next();  // stays at its end
  co_return after ? -1 : sum;
}

}  // namespace

TEST_CASE("generator: gives all values in order, whether it waits or not", "[engine]") {
  at_thread_counts([](Engine&) {
    CHECK(sync_wait(sum_of(count_to(0, Pace::at_once))) == 0);
    CHECK(sync_wait(sum_of(count_to(1000, Pace::at_once))) == 500500);
    CHECK(sync_wait(sum_of(count_to(100, Pace::now_and_then))) == 5050);
    CHECK(sync_wait(sum_of(count_to(50, Pace::always_later))) == 1275);
  });
}

TEST_CASE("generator: awaits arrays in its body", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Cell cell(engine);
    auto last_of = [](AsyncGenerator<double> values) -> Task<double> {
      double last = 0;
      while (auto v = co_await values.next()) last = *v;
      co_return last;
    };
    CHECK(sync_wait(last_of(values_of(engine, cell, 200))) == 100);
  });
}

TEST_CASE("generator: a failure comes after the values that preceded it", "[engine]") {
  at_thread_counts([](Engine&) {
    for (bool later : {false, true}) {
      auto text = std::make_shared<std::string>("value");
      auto run = [](std::shared_ptr<std::string> text, bool later) -> Task<int> {
        auto values = fails_after(3, text, later);
        int n = 0;
        try {
          while (auto v = co_await values.next()) n += int((*v)->size());
        } catch (const std::string& e) {
          n += int(e.size());
        }
        co_return n;
      };
      CHECK(sync_wait(run(text, later)) == 3 * 5 + 10);
      CHECK(text.use_count() == 1);
    }
  });
}

TEST_CASE("generator: dropped early, or never started, it ends its body", "[engine]") {
  at_thread_counts([](Engine&) {
    auto text = std::make_shared<std::string>("value");
    {
      auto never = fails_after(3, text, false);
      CHECK(text.use_count() == 2);
    }
    CHECK(text.use_count() == 1);
    auto take_two = [](std::shared_ptr<std::string> text) -> Task<void> {
      auto values = fails_after(5, text, false);
      co_await values.next();
      co_await values.next();
    };
    sync_wait(take_two(text));
    CHECK(text.use_count() == 1);
  });
}

TEST_CASE("generator: waits for room in the engine between two values", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     auto produce = [](Engine& engine) -> Task<uint64_t> {
                       uint64_t peak = 0;
                       auto numbers = count_to(2000, Pace::at_once);
                       while (auto n = co_await numbers.next()) {
                         EngineStats s = engine.stats();
                         peak = std::max(peak, s.ops - std::min(s.ops, s.completed));
                         engine.push({}, [](RunContext&) { spin_for(2us); });
                       }
                       co_return peak;
                     };
                     CHECK(sync_wait(produce(engine)) <= 66);
                     engine.wait_all();
                   },
                   {.max_in_flight = 64});
}

}  // namespace generator_test

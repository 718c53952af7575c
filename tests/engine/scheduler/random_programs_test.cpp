// Random programs with everything in them, against the same programs in plain order: reads, writes, updates, failures,
// stopped scopes, budgets, one to three pushing threads.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/task.h"
#include "kaon/tests/engine/support.h"

namespace random_programs_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

constexpr size_t own_vars = 5, shared_vars = 3;
constexpr size_t unit = 1024;

struct Step {
  enum class Kind { plain, fails, coroutine, stopped, wait } kind = Kind::plain;
  int id = 0;
  std::vector<size_t> reads, writes, updates;  // of the thread's own vars; reads from own_vars on are of shared ones
  bool transactional = false;
};

// What an array holds: a value, or the failed step that it inherits (several: any of these), or that it was dropped.
struct State {
  long value = 1;
  std::vector<int> failures;
  bool cancelled = false;
  bool is_sound() const { return failures.empty() && !cancelled; }
  bool operator==(const State&) const = default;
};

std::vector<Step> random_steps(std::mt19937& random, int first_id) {
  std::vector<Step> steps(5 + random() % 40);
  for (Step& s : steps) {
    s.id = first_id++;
    switch (random() % 16) {
      case 0: s.kind = Step::Kind::fails; break;
      case 1: s.kind = Step::Kind::coroutine; break;
      case 2: s.kind = Step::Kind::stopped; break;
      case 3: s.kind = Step::Kind::wait; break;
      default: break;
    }
    for (size_t v = 0; v < own_vars + shared_vars; ++v) {
      size_t dice = random() % 8;
      if (dice < 2) s.reads.push_back(v);
      else if (v < own_vars && dice == 2) s.writes.push_back(v);
      else if (v < own_vars && dice == 3) s.updates.push_back(v);
    }
    s.transactional = random() % 3 == 0;
  }
  return steps;
}

long combine(const Step& s, const std::vector<long>& inputs, size_t target) {
  long sum = s.id + long(target);
  for (long v : inputs) sum = sum * 31 + v;
  return sum & 0xffff;
}

// The rules of the engine, in plain order.
void evaluate(const Step& s, std::vector<State>& vars) {
  if (s.kind == Step::Kind::wait) return;
  State inherited;
  auto look = [&](size_t v) {
    inherited.cancelled |= vars[v].cancelled;
    for (int f : vars[v].failures) {
      if (std::find(inherited.failures.begin(), inherited.failures.end(), f) == inherited.failures.end()) {
        inherited.failures.push_back(f);
      }
    }
  };
  for (size_t v : s.reads) look(v);
  for (size_t v : s.updates) look(v);
  std::sort(inherited.failures.begin(), inherited.failures.end());
  const bool dropped = inherited.is_sound() && s.kind == Step::Kind::stopped;
  if (dropped) inherited.cancelled = true;
  if (!inherited.is_sound()) {
    for (size_t v : s.writes) vars[v] = inherited;
    if (!s.transactional) {
      for (size_t v : s.updates) vars[v] = inherited;
    }
    return;
  }
  std::vector<long> inputs;
  for (size_t v : s.reads) inputs.push_back(vars[v].value);
  for (size_t v : s.updates) inputs.push_back(vars[v].value);
  for (const auto* targets : {&s.writes, &s.updates}) {
    for (size_t v : *targets) {
      vars[v] = State();
      vars[v].value = combine(s, inputs, v);
      if (s.kind == Step::Kind::fails) vars[v].failures = {s.id};
    }
  }
}

struct Array {
  IntrusivePtr<Buffer> buffer;
  long* data() const { return static_cast<long*>(buffer->ensure()); }
};

void push(Engine& engine, const Step& s, const std::vector<Array>& arrays) {
  std::vector<Access> accesses;
  for (size_t v : s.reads) accesses.push_back(read(arrays[v].buffer->var));
  for (size_t v : s.writes) accesses.push_back(write(arrays[v].buffer->var));
  for (size_t v : s.updates) accesses.push_back(update(arrays[v].buffer->var));
  IntrusivePtr<Buffer> scratch(new Buffer(unit, cpu(), engine));  // for the budget
  auto body = [&s, &arrays, scratch] {                            // keeps `scratch`
    if (s.kind == Step::Kind::fails) throw s.id;
    std::vector<long> inputs;
    for (size_t v : s.reads) inputs.push_back(*arrays[v].data());
    for (size_t v : s.updates) inputs.push_back(*arrays[v].data());
    for (const auto* targets : {&s.writes, &s.updates}) {
      for (size_t v : *targets) *arrays[v].data() = combine(s, inputs, v);
    }
  };
  const PushOptions options{.label = {.name = "step"}, .transactional = s.transactional};
  if (s.kind != Step::Kind::coroutine) {
    engine.push(
        std::span<const Access>(accesses), [body](RunContext&) { body(); }, options);
    return;
  }
  push_task(
      engine, std::span<const Access>(accesses),
      [body, late = s.id % 2 == 0]() -> Task<void> {
        if (late) co_await sleep_for(5us);
        body();
      },
      options);
}

// What the engine says about an array.
State state_of(Engine& engine, const Array& array) {
  State state;
  try {
    engine.wait(array.buffer->var);
    state.value = *array.data();
  } catch (int id) {
    state.failures = {id};
  } catch (const Cancelled&) {
    state.cancelled = true;
  } catch (const AggregateError& e) {
    for (const auto& part : e.errors()) {
      try {
        std::rethrow_exception(part->exception);
      } catch (int id) {
        state.failures.push_back(id);
      } catch (const Cancelled&) {
        state.cancelled = true;
      }
    }
    std::sort(state.failures.begin(), state.failures.end());
  }
  return state;
}

void run_thread(Engine& engine, const std::vector<Step>& steps, const std::vector<Array>& arrays, size_t budget) {
  EngineScope scope(engine);
  EngineScope limited = scope.with_budget(budget);
  std::stop_source stopped;
  stopped.request_stop();
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::wait) {
      state_of(engine, arrays[size_t(s.id) % own_vars]);
    } else if (s.kind == Step::Kind::stopped) {
      EngineScope dropped = limited.with_budget(0, stopped.get_token());
      push(engine, s, arrays);
    } else {
      push(engine, s, arrays);
    }
  }
}

// Equal to serial execution?
bool agrees(Engine& engine, unsigned program) {
  std::mt19937 random(program);
  const size_t threads = 1 + random() % 3;
  const size_t budget = random() % 2 ? 0 : unit * (1 + random() % 8);
  std::vector<Array> shared;
  for (size_t i = 0; i < shared_vars; ++i) {
    shared.push_back({IntrusivePtr<Buffer>(new Buffer(sizeof(long), cpu(), engine))});
    *shared[i].data() = long(i);
  }
  std::vector<std::vector<Step>> steps;
  std::vector<std::vector<Array>> arrays(threads);
  for (size_t t = 0; t < threads; ++t) {
    steps.push_back(random_steps(random, int(t) * 1000));
    for (size_t i = 0; i < own_vars; ++i) {
      arrays[t].push_back({IntrusivePtr<Buffer>(new Buffer(sizeof(long), cpu(), engine))});
      *arrays[t][i].data() = 1;
    }
    arrays[t].insert(arrays[t].end(), shared.begin(), shared.end());
  }
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) others.emplace_back([&, t] { run_thread(engine, steps[t], arrays[t], budget); });
  run_thread(engine, steps[0], arrays[0], budget);
  for (std::thread& t : others) t.join();
  bool same = true;
  for (size_t t = 0; t < threads; ++t) {
    std::vector<State> expected(own_vars + shared_vars);
    for (size_t i = 0; i < shared_vars; ++i) expected[own_vars + i].value = long(i);
    for (const Step& s : steps[t]) evaluate(s, expected);
    for (size_t v = 0; v < own_vars; ++v) {
      State got = state_of(engine, arrays[t][v]);
      if (!expected[v].is_sound()) got.value = expected[v].value;  // of a failed array: nobody's
      if (got == expected[v]) continue;
      same = false;
      UNSCOPED_INFO("thread " << t << ", var " << v << ": value " << got.value << ", expected " << expected[v].value
                              << ", " << got.failures.size() << " failures, expected " << expected[v].failures.size()
                              << ", cancelled " << got.cancelled << ", expected " << expected[v].cancelled);
    }
  }
  try {
    engine.wait_all();  // failures of arrays that were overwritten since
  } catch (const AggregateError&) {
  }
  return same;
}

void run_programs(unsigned programs) {
  Watchdog watchdog(600s);
  std::vector<std::unique_ptr<Engine>> engines;
  for (int threads : {0, 1, 2, 4})
    engines.push_back(std::make_unique<Engine>(EngineOptions{.threads = threads, .max_in_flight = 16}));
  for (unsigned p = 0; p < programs; ++p) {
    INFO("program " << p);
    if (p % 5 == 4) {
      Engine engine({.schedule = Schedule::random(p)});
      REQUIRE(agrees(engine, p));
    } else {
      REQUIRE(agrees(*engines[p % 5], p));
    }
  }
}

}  // namespace

TEST_CASE("engine: random programs with failures, stops and budgets equal serial execution", "[engine]") {
  run_programs(unsigned(rounds(1500)));
}
TEST_CASE("engine: 10,000 random programs equal serial execution", "[engine][slow]") { run_programs(10000); }

}  // namespace random_programs_test

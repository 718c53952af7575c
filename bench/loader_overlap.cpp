// Does loading hide behind computing? 50 steps with a loader that takes as long as the net: both together against the
// longer of the two alone. First a loader that waits (a timer stands for disk or network), then one that takes a core,
// beside an engine of one thread.
#include <algorithm>

#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation/var.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/data_loader.h"

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::gluon::data;

namespace {

constexpr int64_t steps = 50;
constexpr std::chrono::milliseconds step_time{20};

uint64_t sink;

// A fixed amount of arithmetic, unlike a loop that watches the clock: two of them on one core take twice as long.
void work(int64_t rounds) {
  uint64_t x = uint64_t(rounds);
  for (int64_t i = 0; i < rounds; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  asm volatile("" : : "r"(x));
}

int64_t rounds_for(std::chrono::milliseconds time) {
  constexpr int64_t probe = 20'000'000;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, bench::seconds([] { work(probe); }));
  return int64_t(double(probe) * std::chrono::duration<double>(time).count() / best);
}

Task<Sample> sample_after_a_wait(int64_t index) {
  co_await sleep_for(step_time);
  co_return Sample(float(index), int(index));
}

Task<void> run(DataLoader loader, int64_t compute) {
  Engine& engine = Engine::current();
  Var parameters;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) {
    auto body = [data = batch->data, compute](RunContext&) {
      sink += uint64_t(data.shape()[0]);
      work(compute);
    };
    PushOptions options{.label = {.name = "step"}};
    if (compute > 0) engine.push({read(batch->data.var()), update(parameters)}, body, options);
  }
  co_await engine.idle();
}

void compare(const std::string& name, const Dataset& dataset, int64_t compute) {
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  DataLoader loader(dataset, {.batch_size = 1, .workers = 1});
  Var parameters;
  auto loading = [&] { return bench::seconds([&] { sync_wait(run(loader, 0)); }); };
  auto computing = [&] {
    return bench::seconds([&] {
      for (int64_t i = 0; i < steps; ++i) engine.push({update(parameters)}, [compute](RunContext&) { work(compute); });
      engine.wait_all();
    });
  };
  auto both = [&] { return bench::seconds([&] { sync_wait(run(loader, compute)); }); };
  auto results = bench::interleave(3, {loading, computing, both});
  bench::print(name + "_load_alone", results[0], "s");
  bench::print(name + "_compute_alone", results[1], "s");
  const bool load_is_longer = results[0].median > results[1].median;
  bench::print(name + "_both", results[2], "s", load_is_longer ? name + "_load_alone" : name + "_compute_alone",
               load_is_longer ? results[0] : results[1]);
}

}  // namespace

int main() {
  bench::print_machine();
  const int64_t rounds = rounds_for(step_time);
  compare("loader_waits", Dataset(steps, sample_after_a_wait), rounds);
  compare("loader_takes_a_core",
          Dataset(steps,
                  [rounds](int64_t i) {
                    work(rounds);
                    return Sample(float(i), int(i));
                  }),
          rounds);
}

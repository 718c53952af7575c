// The loader works while the net computes, and what a clock around a push tells.
#include <atomic>

#include "kaon/engine/profiler.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/tests/engine/support.h"

namespace loader_overlap_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::test;

namespace {

constexpr int64_t steps = 20;

// How far the program and the loader have come. Each waits for the other's next beginning: a loader that worked only
// inside next(), or a program that waited for each step, would never get there.
struct Progress {
  std::atomic<int64_t> steps_begun{0};
  std::atomic<int64_t> loads_begun{0};
  std::atomic<bool> gave_up{false};

  template <class F>
  void wait_until(F&& condition) {
    if (!becomes_true(condition)) gave_up = true;
  }
};

// Loading batch k + 1 lasts until step k runs.
Sample load(int64_t k, Progress& progress) {
  ++progress.loads_begun;
  progress.wait_until([&] { return progress.steps_begun >= k || progress.gave_up; });
  return Sample(float(k), int(k));
}

Task<Sample> load_later(int64_t k, Progress& progress) {
  ++progress.loads_begun;
  const auto limit = Clock::now() + 20s;
  while (progress.steps_begun < k && Clock::now() < limit) co_await sleep_for(std::chrono::milliseconds(1));
  if (Clock::now() >= limit) progress.gave_up = true;
  co_return Sample(float(k), int(k));
}

// Step k lasts until batch k + 1 is being loaded.
Task<void> train(DataLoader loader, Progress& progress) {
  Engine& engine = Engine::current();
  Cell parameters(engine);
  int64_t k = 0;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) {
    PushOptions options{.label = {.name = "step"}};
    auto body = [&progress, data = batch->data, k](RunContext&) {
      ++progress.steps_begun;
      if (k + 1 < steps) progress.wait_until([&] { return progress.loads_begun >= k + 2 || progress.gave_up; });
    };
    engine.push({read(batch->data.var()), update(parameters.var())}, body, options);
    ++k;
  }
  co_await engine.idle();
}

bool overlap(const Profiler::Event& a, const Profiler::Event& b) { return a.begin < b.end && b.begin < a.end; }

void check_overlap(const Dataset& dataset, Engine& engine, Progress& progress) {
  EngineScope scope(engine);
  engine.profiler().start();
  sync_wait(train(DataLoader(dataset, {.batch_size = 1, .workers = 1, .prefetch = 1}), progress));
  engine.profiler().stop();
  CHECK_FALSE(progress.gave_up);

  std::vector<Profiler::Event> loads, runs;
  for (const auto& e : engine.profiler().events()) {
    if (std::string_view(e.name) == "load_batch") {
      CHECK(std::string_view(e.category) == "loader");
      loads.push_back(e);
    } else if (std::string_view(e.name) == "step" && std::string_view(e.category) == "operator") {
      runs.push_back(e);
    }
  }
  REQUIRE(loads.size() == size_t(steps));
  REQUIRE(runs.size() == size_t(steps));
  for (size_t k = 0; k + 1 < size_t(steps); ++k) {
    INFO("step " << k);
    CHECK(overlap(loads[k + 1], runs[k]));
  }
}

}  // namespace

TEST_CASE("users row 40: batch k + 1 is loaded while step k runs") {
  for (int threads : {1, 2, 4}) {
    INFO("engine with " << threads << " threads");
    Watchdog watchdog(60s);
    Progress progress;
    Engine engine({.threads = threads});
    check_overlap(Dataset(steps, [&progress](int64_t k) { return load(k, progress); }), engine, progress);
  }
}

TEST_CASE("users row 40: an asynchronous loader overlaps on one io thread and one engine thread") {
  Watchdog watchdog(60s);
  Progress progress;
  Engine engine({.threads = 1, .io_threads = 1});
  struct Source : AsyncDatasetSource {
    Progress* progress;
    int64_t size() const override { return steps; }
    Task<Sample> get(int64_t k) const override { return load_later(k, *progress); }
  };
  Source source;
  source.progress = &progress;
  check_overlap(Dataset(source), engine, progress);
}

TEST_CASE("users row 36: a clock around the push misses the work, time_all sees it") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  Cell cell(engine);
  auto push = [&] { engine.push({write(cell.var())}, [](RunContext&) { std::this_thread::sleep_for(50ms); }); };
  const double all = time_all(push, engine);
  const auto begin = Clock::now();
  push();
  const double naive = std::chrono::duration<double>(Clock::now() - begin).count();
  const bool was_done = engine.stats().completed == engine.stats().ops;
  engine.wait_all();
  CHECK(all >= 0.050);
  CHECK(naive < all);
  if (naive < 0.025) CHECK_FALSE(was_done);  // unless this thread was held up
}

}  // namespace loader_overlap_test

// DataLoader: order, errors, early exits, what does not depend on the number of workers.
#include <array>
#include <atomic>
#include <numeric>

#include "kaon/engine/generator.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/storage.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/tests/engine/support.h"

namespace loader_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::test;
namespace transforms = kaon::gluon::data::vision::transforms;

namespace {

Dataset numbers(int64_t n) {
  return Dataset(n, [](int64_t i) {
    return Sample(HostTensor(Shape(2), std::vector<float>{float(i), float(-i)}), int(i));
  });
}
Task<Sample> later_number(int64_t i) {
  co_await sleep_for(std::chrono::microseconds(i * 37 % 200));
  co_return Sample(HostTensor(Shape(2), std::vector<float>{float(i), float(-i)}), int(i));
}
Dataset later_numbers(int64_t n) { return Dataset(n, later_number); }

using Labels = std::vector<std::vector<int32_t>>;

Task<Labels> read_labels(DataLoader loader) {
  Labels all;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) {
    std::vector<int32_t> labels = co_await batch->label.host<int32_t>();
    all.push_back(std::move(labels));
  }
  co_return all;
}
Labels labels_of(const DataLoader& loader) { return sync_wait(read_labels(loader)); }

// Batches until the error, which must be of type E.
template <class E>
Task<int> batches_before_error(DataLoader loader) {
  auto batches = loader.batches();
  int count = 0;
  for (;;) {
    bool thrown = false;
    try {
      auto batch = co_await batches.next();
      if (!batch) co_return -1;
      ++count;
    } catch (const E&) {
      thrown = true;
    }
    if (thrown) {
      // and again: the generator stays at its error
      try {
        auto batch = co_await batches.next();
        co_return -2;
      } catch (const E&) {
        co_return count;
      }
    }
  }
}

Task<void> take_one_and_leave(DataLoader loader) {
  auto batches = loader.batches();
  auto batch = co_await batches.next();
  CHECK(batch->size() == 4);
}

}  // namespace

TEST_CASE("loader: batches are the samples stacked, in order") {
  Watchdog watchdog;
  for (int workers : {0, 1, 3}) {
    DataLoader loader(numbers(10), {.batch_size = 4, .workers = workers});
    CHECK(loader.size() == 3);
    int64_t count = 0;
    for (Batch& batch : loader.sync()) {
      const int64_t n = count == 2 ? 2 : 4;
      CHECK(batch.size() == n);
      CHECK(batch.data.shape() == Shape(n, 2));
      CHECK(batch.label.shape() == Shape(n));
      CHECK(batch.label.dtype() == DType::int32);
      auto data = batch.data.asvector<float>();
      for (int64_t i = 0; i < n; ++i) {
        CHECK(data[size_t(2 * i)] == float(4 * count + i));
        CHECK(data[size_t(2 * i + 1)] == -float(4 * count + i));
      }
      ++count;
    }
    CHECK(count == 3);
  }
}

TEST_CASE("loader: the last batch is kept, discarded or rolled over") {
  Watchdog watchdog;
  DataLoader keep(numbers(5), {.batch_size = 2});
  CHECK(labels_of(keep) == Labels{{0, 1}, {2, 3}, {4}});
  DataLoader discard(numbers(5), {.batch_size = 2, .last_batch = LastBatch::discard});
  CHECK(labels_of(discard) == Labels{{0, 1}, {2, 3}});
  DataLoader rollover(numbers(5), {.batch_size = 2, .last_batch = LastBatch::rollover});
  CHECK(rollover.size() == 2);
  CHECK(labels_of(rollover) == Labels{{0, 1}, {2, 3}});
  CHECK(rollover.size() == 3);
  CHECK(labels_of(rollover) == Labels{{4, 0}, {1, 2}, {3, 4}});
  DataLoader none(numbers(0), {.batch_size = 2});
  CHECK(labels_of(none).empty());
  DataLoader few(numbers(1), {.batch_size = 2, .last_batch = LastBatch::discard});
  CHECK(labels_of(few).empty());
}

TEST_CASE("loader: each epoch has its own order; an epoch can be asked for again") {
  Watchdog watchdog;
  DataLoader loader(numbers(50), {.batch_size = 10, .shuffle = true, .seed = 3});
  Labels first = labels_of(loader), second = labels_of(loader);
  CHECK(first != second);
  CHECK(loader.next_epoch() == 2);
  loader.set_next_epoch(1);
  CHECK(labels_of(loader) == second);
  DataLoader other(numbers(50), {.batch_size = 10, .shuffle = true, .seed = 4});
  CHECK(labels_of(other) != first);
}

TEST_CASE("users row 43: batches and augmentations are identical for 0, 1, 4 and 16 workers") {
  Watchdog watchdog;
  auto load = [](const Dataset& base, int workers) {
    Dataset augmented = base.transform_first([](HostTensor t, SampleRandom& random) {
      float* x = t.mutable_as<float>();
      x[0] += random.uniform();
      x[1] *= float(random.below(1000));
      return t;
    });
    DataLoader loader(augmented, {.batch_size = 7, .shuffle = true, .workers = workers, .seed = 5});
    std::vector<std::vector<float>> all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (Batch& batch : loader.sync()) {
        all.push_back(batch.data.asvector<float>());
        all.push_back(batch.label.asvector<float>());
      }
    }
    return all;
  };
  Engine engine({.threads = 2, .io_threads = 4});
  EngineScope scope(engine);
  auto expected = load(numbers(100), 0);
  CHECK(expected.size() == 60);
  for (int workers : {1, 4, 16}) CHECK(load(numbers(100), workers) == expected);
  for (int workers : {0, 1, 4, 16}) CHECK(load(later_numbers(100), workers) == expected);
}

TEST_CASE("users row 9: an error of sample 37 is thrown by the fourth next(), always") {
  Watchdog watchdog(60s);
  Dataset bad = numbers(100).transform([](Sample s) {
    if (*s.label.as<int32_t>() == 37) throw std::domain_error("sample 37");
    return s;
  });
  Dataset bad_later = later_numbers(100).transform([](Sample s) {
    if (*s.label.as<int32_t>() >= 37) throw std::domain_error("sample 37 and all behind");
    return s;
  });
  Engine engine({.threads = 2, .io_threads = 4});
  EngineScope scope(engine);
  for (int run = 0; run < rounds(50); ++run) {
    for (int workers : {0, 1, 4}) {
      LoaderOptions options{.batch_size = 10, .workers = workers};
      REQUIRE(sync_wait(batches_before_error<std::domain_error>(DataLoader(bad, options))) == 3);
      REQUIRE(sync_wait(batches_before_error<std::domain_error>(DataLoader(bad_later, options))) == 3);
    }
  }
  // plain code sees the same
  int count = 0;
  CHECK_THROWS_AS(
      [&] {
        for (Batch& batch : DataLoader(bad, {.batch_size = 10, .workers = 4}).sync()) count += int(batch.size());
      }(),
      std::domain_error);
  CHECK(count == 30);
}

TEST_CASE("users row 41: leaving the loop after one batch stops 8 workers, 500 times") {
  Watchdog watchdog(60s);
  std::atomic<int> inside{0};
  Dataset slow(1000, [&inside](int64_t i) {
    ++inside;
    if (i % 16 == 0) std::this_thread::sleep_for(100us);
    --inside;
    return Sample(float(i));
  });
  Engine engine({.threads = 2, .io_threads = 4});
  EngineScope scope(engine);
  const size_t live = Storage::cpu().stats().live;
  DataLoader loader(slow, {.batch_size = 4, .workers = 8}), later(later_numbers(1000), {.batch_size = 4, .workers = 8});
  std::vector<Clock::duration> times;  // to leave
  for (int run = 0; run < rounds(500); ++run) {
    sync_wait(take_one_and_leave(loader));
    REQUIRE(inside == 0);  // nobody is in the dataset any more
    sync_wait(take_one_and_leave(later));
    { auto unused = loader.batches(); }  // never asked for a batch
    REQUIRE(inside == 0);
    auto begin = Clock::now();
    for (Batch& batch : loader.sync()) {
      CHECK(batch.size() == 4);
      begin = Clock::now();
      break;
    }
    times.push_back(Clock::now() - begin);
  }
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  if (!sanitized) CHECK(times[times.size() / 2] < 100ms);  // the machine may be busy now and then
  // every worker has ended and has let go of its arrays
  CHECK(becomes_true([&] { return Storage::cpu().stats().live <= live; }));
}

TEST_CASE("loader: consumers on the io pool stop early even where it has one thread") {
  Watchdog watchdog;
  for (const Dataset& dataset : {numbers(1000), later_numbers(1000)}) {
    Engine engine({.threads = 1, .io_threads = 1});
    EngineScope scope(engine);
    std::atomic<int> ended{0};
    struct Consumer {
      static Task<void> run(DataLoader loader, std::atomic<int>& ended) {
        for (int i = 0; i < 20; ++i) co_await take_one_and_leave(loader);
        ++ended;
      }
    };
    DataLoader loader(dataset, {.batch_size = 4, .workers = 4});
    for (int i = 0; i < 3; ++i) spawn(Consumer::run(loader, ended), engine.io_executor());
    CHECK(becomes_true([&] { return ended == 3; }));
  }
}

TEST_CASE("loader: at most `prefetch` batches are loaded ahead") {
  Watchdog watchdog;
  std::atomic<int> loaded{0};
  Dataset counted(100, [&loaded](int64_t i) {
    ++loaded;
    return Sample(float(i));
  });
  auto batches = DataLoader(counted, {.batch_size = 1, .workers = 2, .prefetch = 5}).batches();
  CHECK(becomes_true([&] { return loaded == 5; }));  // before anybody has asked
  std::this_thread::sleep_for(20ms);
  CHECK(loaded == 5);
  struct Consumer {
    static Task<void> run(AsyncGenerator<Batch>& batches) {
      for (int i = 0; i < 3; ++i) {
        auto batch = co_await batches.next();
        CHECK(batch.has_value());
      }
    }
  };
  sync_wait(Consumer::run(batches));
  CHECK(becomes_true([&] { return loaded == 8; }));
  std::this_thread::sleep_for(20ms);
  CHECK(loaded == 8);
}

TEST_CASE("loader: a prefetch beyond the epoch costs nothing") {
  Watchdog watchdog;
  DataLoader loader(numbers(5), {.batch_size = 2, .workers = 2, .prefetch = std::numeric_limits<int>::max()});
  CHECK(labels_of(loader) == Labels{{0, 1}, {2, 3}, {4}});
  CHECK(labels_of(DataLoader(numbers(0), {.batch_size = 2, .prefetch = 3})).empty());
}

TEST_CASE("loader: a waiting asynchronous sample holds no io thread") {
  Watchdog watchdog;
  // one io thread, eight samples that wait for each other: they can only arrive together
  Engine engine({.threads = 1, .io_threads = 1});
  EngineScope scope(engine);
  static std::atomic<int> arrived;
  arrived = 0;
  struct Meeting {
    static Task<Sample> get(int64_t i) {
      ++arrived;
      while (arrived < 8) co_await sleep_for(std::chrono::milliseconds(1));
      co_return Sample(float(i), int(i));
    }
  };
  DataLoader loader(Dataset(8, Meeting::get), {.batch_size = 1, .workers = 8});
  CHECK(labels_of(loader).size() == 8);
}

TEST_CASE("loader: a generator and its batches outlive the loader") {
  Watchdog watchdog;
  auto batches = DataLoader(numbers(10), {.batch_size = 5}).batches();
  SyncBatches range(std::move(batches));
  std::vector<NDArray> kept;
  for (Batch& batch : range) kept.push_back(batch.data);
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].asvector<float>()[2] == 1);
  CHECK(kept[1].asvector<float>()[2] == 6);
}

TEST_CASE("loader: it works on engines of every size, and pushes nothing") {
  at_thread_counts([](Engine& engine) {
    const uint64_t before = engine.stats().ops;
    int64_t samples = 0;
    for (Batch& batch : DataLoader(numbers(100), {.batch_size = 8, .workers = 3}).sync()) samples += batch.size();
    CHECK(samples == 100);
    CHECK(engine.stats().ops == before);
  });
}

TEST_CASE("users row 57: the loader's messages say what, expected and got") {
  Watchdog watchdog;
  auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "nothing thrown";
  };
  auto load = [](const Dataset& d) {
    for (Batch& batch : DataLoader(d, {.batch_size = 4, .workers = 2}).sync()) CHECK(batch.size() <= 4);
  };
  Dataset ragged(8, [](int64_t i) { return Sample(HostTensor(Shape(i < 6 ? 3 : 4), DType::float32)); });
  CHECK(message([&] { load(ragged); }) ==
        "[DataLoader] the samples of a batch must agree in data: expected shape (3,), got shape (4,) (batchify::Pad "
        "fills up) while loading sample 6 for batch 1");
  Dataset mixed(8, [](int64_t i) { return i == 2 ? Sample(1.0f, 1.5f) : Sample(1.0f, 1); });
  CHECK(message([&] { load(mixed); }) ==
        "[DataLoader] the samples of a batch must agree in label: expected dtype int32, got float32 while loading "
        "sample 2 for "
        "batch 0");
  Dataset unlabelled(8, [](int64_t i) { return i == 1 ? Sample(1.0f) : Sample(1.0f, 1); });
  CHECK(message([&] { load(unlabelled); }) ==
        "[DataLoader] the samples of a batch must agree in label: expected shape (), got none while loading sample 1 "
        "for batch 0");
  Dataset nothing(8, [](int64_t) { return Sample(); });
  CHECK(message([&] { load(nothing); }) == "[DataLoader] a sample has no data while loading sample 0 for batch 0");
  CHECK(message([&] { DataLoader loader(numbers(4), LoaderOptions()); }) ==
        "[DataLoader] batch_size: expected at least 1, got 0");
  CHECK(message([&] { DataLoader loader(numbers(4), {.batch_size = 1, .workers = -1}); }) ==
        "[DataLoader] workers: expected at least 0, got -1");
  CHECK(message([&] { DataLoader loader(numbers(4), {.batch_size = 1, .prefetch = -2}); }) ==
        "[DataLoader] prefetch: expected at least 0, got -2");
  BatchSampler beyond(SequentialSampler(4, 2), 2);
  CHECK(message([&] { DataLoader loader(numbers(4), beyond, {.shuffle = true}); }) ==
        "[DataLoader] batch_size, shuffle and last_batch must not be given with a BatchSampler, which decides them");
  CHECK(message([&] {
          for (Batch& batch : DataLoader(numbers(4), beyond).sync()) CHECK(batch.size() == 2);
        }) == "[DataLoader] the sampler gave index 4 for 4 samples while loading sample 4 for batch 1");
}

}  // namespace loader_test

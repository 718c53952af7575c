// Orders of samples beyond sequential and random ones, and batches of similar lengths.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "kaon/gluon/data/data_loader.h"

namespace sampler_test {

using namespace kaon;
using namespace kaon::gluon::data;

namespace {

using Indices = std::vector<int64_t>;

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

std::vector<Indices> all(const BatchSampler& sampler, uint64_t epoch) {
  std::vector<Indices> batches;
  const EpochBatches given = sampler.batches(epoch);
  for (int64_t i = 0; i < given.size(); ++i) batches.emplace_back(given[i].begin(), given[i].end());
  return batches;
}

}  // namespace

TEST_CASE("sampler: intervals are MXNet's") {
  CHECK(IntervalSampler(13, 3).indices(0) == Indices{0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11});
  CHECK(IntervalSampler(13, 3, false).indices(0) == Indices{0, 3, 6, 9, 12});
  CHECK(IntervalSampler(3, 3).indices(0) == Indices{0, 1, 2});
  CHECK(message([] { IntervalSampler(3, 4); }) == "[IntervalSampler] interval: expected 1 to the length 3, got 4");
}

TEST_CASE("sampler: those samples that a function keeps") {
  Dataset d(10, [](int64_t i) { return Sample(int(i)); });
  FilterSampler even([](const Sample& s) { return *s.data.as<int32_t>() % 4 == 1; }, d);
  CHECK(even.indices(3) == Indices{1, 5, 9});
  CHECK(d.sample(even).size() == 3);
}

TEST_CASE("sampler: weighted draws have the frequencies of the weights") {
  const std::vector<double> weights{1, 0, 3, 6};
  WeightedRandomSampler sampler(weights, 10000, {.seed = 5});
  std::vector<int> count(4);
  for (int64_t i : sampler.indices(0)) ++count[size_t(i)];
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(count[i] - 1000 * weights[i]) < 5 * std::sqrt(1000 * weights[i]) + 0.1);
  CHECK(sampler.indices(0) == WeightedRandomSampler(weights, 10000, {.seed = 5}).indices(0));
  CHECK(sampler.indices(0) != sampler.indices(1));

  // without replacement: the first is drawn like that, and no sample comes twice
  WeightedRandomSampler once(weights, 3, {.replacement = false});
  std::vector<int> first(4);
  for (uint64_t epoch = 0; epoch < 10000; ++epoch) {
    const Indices order = once.indices(epoch);
    CHECK(std::set<int64_t>(order.begin(), order.end()) == std::set<int64_t>{0, 2, 3});
    ++first[size_t(order[0])];
  }
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(first[i] - 1000 * weights[i]) < 5 * std::sqrt(1000 * weights[i]) + 0.1);
  CHECK(message([&] { WeightedRandomSampler(weights, 4, {.replacement = false}); }) ==
        "[WeightedRandomSampler] num_samples: expected at most 3, as many as positive weights, got 4");
  CHECK(message([] {
          WeightedRandomSampler({1, -2}, 4);
        }) == "[WeightedRandomSampler] weights: expected finite numbers of at least 0, got -2 for sample 1");
  CHECK(message([] {
          WeightedRandomSampler({0.0, 0.0}, 4);
        }) == "[WeightedRandomSampler] num_samples: expected at most 0, as many as positive weights, got 4");
}

TEST_CASE("sampler: the parts of workers make up the whole, all as long") {
  for (int64_t length : {1, 7, 9, 12}) {
    for (bool shuffle : {false, true}) {
      std::multiset<int64_t> seen;
      for (int64_t rank = 0; rank < 3; ++rank) {
        DistributedSampler part(length, 3, rank, {.shuffle = shuffle, .seed = 4});
        CHECK(part.size() == (length + 2) / 3);
        for (int64_t i : part.indices(2)) seen.insert(i);
      }
      CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == size_t(length));
      CHECK(int64_t(seen.size()) == (length + 2) / 3 * 3);
    }
  }
  CHECK(DistributedSampler(7, 3, 1, {.shuffle = false}).indices(0) == Indices{1, 4, 0});
  CHECK(DistributedSampler(7, 3, 1, {.shuffle = false, .drop_last = true}).indices(0) == Indices{1, 4});
  CHECK(DistributedSampler(SequentialSampler(4, 10), 2, 1).indices(0) == Indices{11, 13});
  CHECK(DistributedSampler(0, 2, 1).indices(0).empty());
  CHECK(DistributedSampler(2, 4, 3, {.drop_last = true}).indices(0).empty());
  CHECK(message([] { DistributedSampler(4, 2, 2); }) ==
        "[DistributedSampler] expected a rank in [0, num_workers), got 2 of 2");
}

TEST_CASE("batch sampler: buckets hold samples of similar lengths") {
  const Indices lengths{5, 1, 9, 2, 6, 10, 3, 1, 8};
  const Indices two_twelve{2, 12}, three{3}, equal{5, 5};
  // widths of 5: lengths up to 5 and up to 10
  BucketSampler two(lengths, 2, {.num_buckets = 2});
  CHECK(two.size() == 5);
  CHECK(all(two, 0) == std::vector<Indices>{{0, 1}, {3, 6}, {7}, {2, 4}, {5, 8}});
  CHECK(all(BucketSampler(lengths, 2, {.num_buckets = 2, .drop_last = true}), 0) ==
        std::vector<Indices>{{0, 1}, {3, 6}, {2, 4}, {5, 8}});
  CHECK(all(BucketSampler(lengths, 2, {.bounds = two_twelve, .ratio = 1}), 0) ==
        std::vector<Indices>{{1, 3, 7}, {0, 2}, {4, 5}, {6, 8}});
  CHECK(all(BucketSampler({4, 4, 4}, 2), 0) == std::vector<Indices>{{0, 1}, {2}});

  Indices many;
  for (int64_t i = 0; i < 300; ++i) many.push_back(i * 37 % 100);
  BucketSampler shuffled(many, 8, {.shuffle = true, .seed = 1});
  for (uint64_t epoch : {0, 1}) {
    std::set<int64_t> seen;
    for (const Indices& batch : all(shuffled, epoch)) {
      int64_t least = 1000, most = 0;
      for (int64_t i : batch) least = std::min(least, many[size_t(i)]), most = std::max(most, many[size_t(i)]);
      CHECK(most - least < 10);
      seen.insert(batch.begin(), batch.end());
    }
    CHECK(seen.size() == 300);
    CHECK(int64_t(all(shuffled, epoch).size()) == shuffled.size(epoch));
  }
  CHECK(all(shuffled, 0) == all(BucketSampler(many, 8, {.shuffle = true, .seed = 1}), 0));
  CHECK(all(shuffled, 0) != all(shuffled, 1));
  CHECK(message([] { BucketSampler({}, 2); }) == "[BucketSampler] lengths: expected at least one, got none");
  CHECK(message([&] {
          BucketSampler({1, 5}, 2, {.bounds = three});
        }) == "[BucketSampler] bounds: expected a last one of at least 5, the longest sample, got 3");
  CHECK(message([&] {
          BucketSampler({1, 5}, 2, {.bounds = equal});
        }) == "[BucketSampler] bounds: expected growing ones, got 5 behind 5");
  CHECK(message([] { BucketSampler({1, -5}, 2); }) == "[BucketSampler] lengths: expected at least 0, got -5");
  CHECK(message([] { BucketSampler({1, 5}, 0); }) == "[BucketSampler] batch_size: expected at least 1, got 0");
}

TEST_CASE("batch sampler: a loader pads each bucket to its own length") {
  Dataset words(20, [](int64_t i) {
    return Sample(HostTensor(Shape(1 + i % 10), std::vector<float>(size_t(1 + i % 10), 1.0f)));
  });
  Indices lengths;
  for (int64_t i = 0; i < 20; ++i) lengths.push_back(1 + i % 10);
  BucketSampler buckets(lengths, 4, {.num_buckets = 5, .shuffle = true});
  auto shapes = [&](int workers) {
    std::vector<Shape> found;
    for (Batch& b : DataLoader(words, buckets, {.workers = workers}, batchify::Pad()).sync())
      found.push_back(b.data.shape());
    return found;
  };
  const std::vector<Shape> expected = shapes(0);
  CHECK(expected.size() == 5);
  for (const Shape& s : expected) CHECK((s[0] == 4 && s[1] % 2 == 0));
  CHECK(shapes(3) == expected);
}

}  // namespace sampler_test

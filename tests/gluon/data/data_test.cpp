// Datasets, samplers, transforms: what a loader is made of.
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "kaon/gluon/data/dataset.h"
#include "kaon/gluon/data/sampler.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/array/array_node.h"

namespace data_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::gluon::data;
namespace transforms = kaon::gluon::data::vision::transforms;

namespace {

Dataset numbers(int64_t n) {
  return Dataset(n, [](int64_t i) { return Sample(float(i), int(i)); });
}
float value(const Sample& s) { return *s.data.as<float>(); }
std::vector<float> values(const Dataset& d) {
  std::vector<float> v;
  for (int64_t i = 0; i < d.size(); ++i) v.push_back(value(d.get(i)));
  return v;
}
template <class T>
std::vector<T> elements(const HostTensor& t) {
  return {t.as<T>(), t.as<T>() + t.size()};
}
std::vector<int64_t> flat(const BatchSampler& sampler, uint64_t epoch) {
  std::vector<int64_t> all;
  EpochBatches batches = sampler.batches(epoch);
  for (int64_t i = 0; i < batches.size(); ++i) all.insert(all.end(), batches[i].begin(), batches[i].end());
  return all;
}

struct Squares : DatasetSource {
  int64_t size() const override { return 5; }
  Sample get(int64_t index) const override { return Sample(float(index * index)); }
};
struct Later : AsyncDatasetSource {
  int64_t size() const override { return 3; }
  Task<Sample> get(int64_t index) const override {
    co_await sleep_for(std::chrono::milliseconds(1));
    co_return Sample(float(10 * index));
  }
};

}  // namespace

TEST_CASE("dataset: a class, an asynchronous class and a callable are datasets") {
  CHECK(values(Dataset(Squares{})) == std::vector<float>{0, 1, 4, 9, 16});
  CHECK(values(Dataset(std::make_shared<const Squares>())) == std::vector<float>{0, 1, 4, 9, 16});
  CHECK(Dataset(Later{}).is_async());
  CHECK(values(Dataset(Later{})) == std::vector<float>{0, 10, 20});
  CHECK(values(numbers(3)) == std::vector<float>{0, 1, 2});
  CHECK_THROWS_AS(numbers(3).get(3), IndexError);
  CHECK_THROWS_AS(numbers(3).get(-1), IndexError);
  CHECK_THROWS_AS(numbers(-1), ValueError);
  CHECK_THROWS_AS(Dataset(std::shared_ptr<const DatasetSource>()), ValueError);
  CHECK_THROWS_AS(Dataset(3, std::function<Sample(int64_t)>()), ValueError);
  CHECK_THROWS_AS(Sampler(nullptr), ValueError);
}

TEST_CASE("dataset: transforms are applied when a sample is loaded, in order") {
  int calls = 0;
  Dataset d = numbers(10)
                  .transform_first([&calls](HostTensor t) {
                    ++calls;
                    *t.mutable_as<float>() += 1;
                    return t;
                  })
                  .transform([](Sample s) {
                    *s.data.mutable_as<float>() *= 2;
                    return s;
                  });
  CHECK(calls == 0);
  CHECK(value(d.get(3)) == 8);
  CHECK(*d.get(3).label.as<int32_t>() == 3);
  CHECK(calls == 2);
  Dataset later = Dataset(Later{}).transform_first([](HostTensor t) { return HostTensor(*t.as<float>() + 1); });
  CHECK(later.is_async());
  CHECK(values(later) == std::vector<float>{1, 11, 21});
}

TEST_CASE("dataset: filter, shard, take, subset") {
  Dataset hundred = numbers(100);
  Dataset tens = hundred.filter([](const Sample& s) { return int(value(s)) % 10 == 0; });
  CHECK(values(tens) == std::vector<float>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90});

  Dataset nine = numbers(9);
  std::vector<int64_t> sizes;
  std::vector<float> all;
  for (int i = 0; i < 4; ++i) {
    Dataset part = nine.shard(4, i);
    sizes.push_back(part.size());
    for (float v : values(part)) all.push_back(v);
  }
  CHECK(sizes == std::vector<int64_t>{3, 2, 2, 2});
  CHECK(all == values(nine));
  CHECK_THROWS_AS(nine.shard(4, 4), ValueError);
  CHECK_THROWS_AS(nine.shard(0, 0), ValueError);

  auto sum = [](const Dataset& d) {
    auto v = values(d);
    return std::accumulate(v.begin(), v.end(), 0.0f);
  };
  CHECK(numbers(1000).take(100).size() == 100);
  CHECK(nine.take(100).size() == 9);
  CHECK(sum(numbers(1000).take(10)) == 45);
  CHECK(values(hundred.subset({7, 7, 3})) == std::vector<float>{7, 7, 3});
  CHECK_THROWS_AS(hundred.subset({100}), IndexError);
  CHECK_THROWS_AS(hundred.take(-1), ValueError);
}

TEST_CASE("dataset: ArrayDataset gives rows, and checks lengths") {
  HostTensor data({3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}), label(Shape(3), std::vector<int>{7, 8, 9});
  ArrayDataset d(data, label);
  CHECK(d.size() == 3);
  CHECK(d.get(1).data.shape() == Shape(2));
  CHECK(elements<float>(d.get(1).data) == std::vector<float>{3, 4});
  CHECK(d.get(2).label.shape() == Shape());
  CHECK(*d.get(2).label.as<int32_t>() == 9);
  CHECK_FALSE(ArrayDataset(data).get(0).label.defined());
  CHECK_THROWS_AS(ArrayDataset(data, HostTensor(Shape(2), std::vector<int>{1, 2})), ShapeError);
  CHECK_THROWS_AS(ArrayDataset(HostTensor(1.0f)), ShapeError);

  NDArray array = NDArray::empty({2, 2}, DType::float16);
  auto* half = static_cast<float16*>(array.node().data());
  for (int i = 0; i < 4; ++i) half[i] = float16(float(i));
  Sample row = ArrayDataset(array).get(1);
  CHECK(row.data.dtype() == DType::float16);
  CHECK(float(row.data.as<float16>()[1]) == 3);
}

TEST_CASE("dataset: a viewed tensor is copied before it is written") {
  HostTensor data(Shape(2), std::vector<float>{1, 2});
  ArrayDataset d(std::move(data));
  HostTensor row = d.get(0).data;
  *row.mutable_as<float>() = 5;
  CHECK(value(d.get(0)) == 1);
  CHECK_THROWS_AS(row.as<int32_t>(), TypeError);
  CHECK_THROWS_AS(HostTensor(Shape(3), std::vector<float>{1, 2}), ShapeError);
}

TEST_CASE("sampler: sequential and random orders; random depends on seed and epoch alone") {
  CHECK(SequentialSampler(4, 2).indices(5) == std::vector<int64_t>{2, 3, 4, 5});
  RandomSampler random(100, 7);
  auto order = random.indices(0);
  CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 100);
  CHECK(*std::max_element(order.begin(), order.end()) == 99);
  CHECK(order == RandomSampler(100, 7).indices(0));
  CHECK(order != random.indices(1));
  CHECK(order != RandomSampler(100, 8).indices(0));
  CHECK(RandomSampler(0).indices(0).empty());
  CHECK_THROWS_AS(SequentialSampler(-1), ValueError);
}

TEST_CASE("sampler: a random order is uniform") {
  // the sample that comes first, over many epochs
  std::vector<int> count(5);
  for (uint64_t epoch = 0; epoch < 5000; ++epoch) ++count[size_t(RandomSampler(5, 3).indices(epoch)[0])];
  for (int c : count) CHECK(std::abs(c - 1000) < 150);
}

TEST_CASE("batch sampler: the last batch is kept, discarded or rolled over") {
  SequentialSampler ten(10);
  CHECK(BatchSampler(ten, 3, LastBatch::keep).size() == 4);
  CHECK(BatchSampler(ten, 3, LastBatch::keep).batches(0)[3].size() == 1);
  BatchSampler discard(ten, 3, LastBatch::discard);
  CHECK(discard.size() == 3);
  CHECK(flat(discard, 0) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});

  BatchSampler rollover(ten, 4, LastBatch::rollover);
  CHECK(rollover.size(0) == 2);
  CHECK(flat(rollover, 0) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(rollover.size(1) == 3);
  CHECK(flat(rollover, 1) == std::vector<int64_t>{8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(flat(rollover, 2) == flat(rollover, 0));
  CHECK_THROWS_AS(BatchSampler(ten, 0), ValueError);
}

TEST_CASE(
    "batch sampler: under rollover every sample of every epoch comes once, also for epochs shorter than a batch") {
  for (int64_t n : {1, 3, 10}) {
    for (int64_t b : {1, 2, 4, 7}) {
      RandomSampler sampler(n, 11);
      BatchSampler batches(sampler, b, LastBatch::rollover);
      std::vector<int64_t> expected, got;
      for (uint64_t epoch = 0; epoch < 20; ++epoch) {
        for (int64_t i : sampler.indices(epoch)) expected.push_back(i);
        auto here = flat(batches, epoch);
        CHECK(int64_t(here.size()) == batches.size(epoch) * b);
        got.insert(got.end(), here.begin(), here.end());
      }
      REQUIRE(got.size() <= expected.size());
      CHECK(expected.size() - got.size() < size_t(b));
      CHECK(std::equal(got.begin(), got.end(), expected.begin()));
    }
  }
}

TEST_CASE("transforms: to_tensor, normalize, cast") {
  HostTensor image({2, 2, 2}, std::vector<uint8_t>{0, 255, 51, 102, 153, 204, 255, 0});
  HostTensor chw = transforms::to_tensor(image);
  CHECK(chw.shape() == Shape(2, 2, 2));
  CHECK(elements<float>(chw) == std::vector<float>{0, 51 / 255.0f, 153 / 255.0f, 1, 1, 102 / 255.0f, 204 / 255.0f, 0});
  auto normal = elements<float>(transforms::normalize({0.5f, 0.25f}, {0.5f, 0.25f})(chw));
  CHECK(normal[0] == -1);
  CHECK(normal[3] == 1);
  CHECK(normal[4] == 3);
  CHECK(elements<float>(transforms::normalize(0.5f, 0.5f)(chw))[4] == 1);
  CHECK(elements<int32_t>(transforms::cast(DType::int32)(image))[5] == 204);
  CHECK(float(elements<float16>(transforms::cast(DType::float16)(chw))[3]) == 1);

  CHECK_THROWS_AS(transforms::to_tensor(HostTensor({2, 2}, DType::uint8)), ShapeError);
  CHECK_THROWS_AS(transforms::to_tensor(chw), TypeError);
  CHECK_THROWS_AS(transforms::normalize({1, 2, 3}, {1, 1, 1})(chw), ShapeError);
  CHECK_THROWS_AS(transforms::normalize(0, 0), ValueError);
  CHECK_THROWS_AS(transforms::normalize({1, 2}, {1}), ValueError);
}

TEST_CASE("transforms: a random flip mirrors half of the images, by the sample's key") {
  HostTensor image({1, 3, 2}, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  const std::vector<int32_t> mirrored{5, 6, 3, 4, 1, 2};
  int flips = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    SampleRandom random(1, 2, i), again(1, 2, i);
    auto got = elements<int32_t>(transforms::random_flip_left_right(image, random));
    CHECK((got == mirrored || got == elements<int32_t>(image)));
    CHECK(got == elements<int32_t>(transforms::random_flip_left_right(image, again)));
    flips += got == mirrored;
  }
  CHECK(std::abs(flips - 500) < 80);
}

TEST_CASE("transforms: a sample's random numbers differ by seed, epoch and sample") {
  std::set<uint32_t> words;
  for (uint64_t seed : {0, 1}) {
    for (uint64_t epoch : {0, 1}) {
      for (int64_t sample : {0, 1}) {
        SampleRandom random(seed, epoch, sample);
        for (int i = 0; i < 9; ++i) words.insert(random.word());
      }
    }
  }
  CHECK(words.size() == 72);
  SampleRandom random(0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    const int64_t k = random.below(3);
    CHECK((k >= 0 && k < 3));
    const float u = random.uniform();
    CHECK((u >= 0 && u < 1));
  }
}

}  // namespace data_test

// Samples and batches of any number of arrays, with and without names.
#include <catch2/catch.hpp>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/ops/functions.h"

namespace arrays_test {

using namespace kaon;
using namespace kaon::gluon::data;

namespace {

HostTensor ints(std::vector<int32_t> v) { return HostTensor(Shape(int64_t(v.size())), v); }

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

// Every number of every array of every batch.
std::vector<std::vector<float>> numbers_of(const DataLoader& loader) {
  std::vector<std::vector<float>> all;
  for (Batch& batch : loader.sync()) {
    for (const NDArray& array : batch.arrays()) all.push_back(array.asvector<float>());
  }
  return all;
}

}  // namespace

TEST_CASE("samples: lists, tuples and pairs of tensors are samples") {
  Dataset lists(3, [](int64_t i) {
    return std::vector<HostTensor>{HostTensor(int(i)), HostTensor(2.5f), ints({1, 2})};
  });
  Sample s = lists.get(2);
  REQUIRE(s.num_arrays() == 3);
  CHECK(*s.data.as<int32_t>() == 2);
  CHECK(*s.label.as<float>() == 2.5f);
  CHECK(s[2].shape() == Shape(2));
  CHECK(s.others.size() == 1);

  Dataset tuples(3, [](int64_t i) { return std::tuple(ints({int(i)}), 1.0f, 7, HostTensor(3.0)); });
  CHECK(tuples.get(1).num_arrays() == 4);
  CHECK(*tuples.get(1)[3].as<double>() == 3.0);
  Dataset pairs(3, [](int64_t i) { return std::pair(float(i), int(i)); });
  CHECK(*pairs.get(1).label.as<int32_t>() == 1);
  CHECK(Sample(1, 2, 3, 4, 5).num_arrays() == 5);
  CHECK(Sample().num_arrays() == 0);
  CHECK(Sample(1).num_arrays() == 1);
  CHECK(Sample(1, 2, 3).arrays().size() == 3);
}

TEST_CASE("samples: arrays have names") {
  Dataset d = Dataset(4, [](int64_t i) { return Sample(int(i), 2, 3.5f); }).named({"tokens", "length", "weight"});
  CHECK(*d.get(3)["weight"].as<float>() == 3.5f);
  CHECK(*d.get(3)["tokens"].as<int32_t>() == 3);
  CHECK(*Sample(4, 5)["label"].as<int32_t>() == 5);
  for (Batch& batch : DataLoader(d, {.batch_size = 3}).sync()) {
    CHECK(batch.num_arrays() == 3);
    CHECK(batch["weight"].dtype() == DType::float32);
    CHECK(batch["length"].shape() == Shape(batch.size()));
  }
  CHECK(message([&] { (void)d.get(0)["mask"]; }) ==
        "[Sample] no array \"mask\": expected one of 3 arrays: tokens, length, weight");
  CHECK(message([&] { (void)Sample(4, 5)[2]; }) == "[Sample] no array 2: expected one of 2 arrays: data, label");
  CHECK(message([&] {
          (void)d.named({"a", "a", "b"});
        }) == "[Dataset] named: expected names that differ, got \"a\" for array 0");
  CHECK(message([&] {
          (void)d.named({"a", "b"}).get(0);
        }) == "[Dataset] named: expected a sample of 2 arrays, one for each name, got 3");
}

TEST_CASE("samples: ArrayDataset has any number of arrays, of both kinds") {
  NDArray x = nd.arange(0, 6).reshape({3, 2});
  ArrayDataset d(x, ints({7, 8, 9}), x * 2, nd.ones({3, 1, 4}));
  Sample s = d.get(1);
  REQUIRE(s.num_arrays() == 4);
  CHECK(s.data.shape() == Shape(2));
  CHECK(*s.label.as<int32_t>() == 8);
  CHECK(s[2].as<float>()[1] == 6);
  CHECK(s[3].shape() == Shape(1, 4));
  CHECK(ArrayDataset(std::vector<HostTensor>{ints({1, 2})}).get(1).num_arrays() == 1);
  CHECK(message([&] {
          ArrayDataset(x, x, ints({1, 2}));
        }) == "[ArrayDataset] data and array 2 must have as many rows, got (3, 2) and (2,)");
  CHECK(message([&] { ArrayDataset(x, x, HostTensor(1)); }) ==
        "[ArrayDataset] array 2 must have at least one dimension");
  CHECK(message([&] { ArrayDataset(std::vector<HostTensor>()); }) ==
        "[ArrayDataset] expected at least one array, got none");
}

TEST_CASE("samples: a loader stacks every array, alike for any number of workers") {
  Dataset d = Dataset(50, [](int64_t i) { return std::tuple(float(i), ints({int(i), 1}), 2 * float(i), int(i)); });
  Dataset random = d.transform([](Sample s, SampleRandom& r) {
    *s[2].mutable_as<float>() += r.uniform();
    return s;
  });
  const auto expected = numbers_of(DataLoader(random, {.batch_size = 8, .shuffle = true, .workers = 0, .seed = 2}));
  CHECK(expected.size() == 7 * 4);
  CHECK(expected[1].size() == 16);
  for (int workers : {1, 4}) {
    CHECK(numbers_of(DataLoader(random, {.batch_size = 8, .shuffle = true, .workers = workers, .seed = 2})) ==
          expected);
  }
  auto load = [](const Dataset& bad) { return message([&] { numbers_of(DataLoader(bad, {.batch_size = 2})); }); };
  CHECK(load(Dataset(4, [](int64_t i) { return i == 3 ? Sample(1, 2) : Sample(1, 2, 3); })) ==
        "[DataLoader] the samples of a batch must agree in array 2: expected shape (), got none while loading sample 3 "
        "for batch 1");
  CHECK(load(Dataset(4, [](int64_t i) { return i == 1 ? Sample(1, 2, 3) : Sample(1, 2); })) ==
        "[DataLoader] the samples of a batch must agree in array 2: expected none, got shape () while loading sample 1 "
        "for batch 0");
}

TEST_CASE("dataset: SimpleDataset of numbers, tuples and anything else") {
  CHECK(*SimpleDataset(std::vector{1.5f, 2.5f}).get(1).data.as<float>() == 2.5f);
  CHECK(SimpleDataset(std::vector{std::tuple(1, 2.0f, 3)}).get(0).num_arrays() == 3);
  SimpleDataset words(std::vector<std::string>{"a", "word"}, [](const std::string& w) { return int(w.size()); });
  CHECK(*words.get(1).data.as<int32_t>() == 4);
  SimpleDataset drawn(std::vector<std::string>{"a", "word"},
                      [](const std::string& w, SampleRandom& r) { return std::pair(int(w.size()), r.uniform()); });
  CHECK(*drawn.get(1).data.as<int32_t>() == 4);
  SampleRandom same(0, 0, 1);
  CHECK(*drawn.get(1).label.as<float>() == same.uniform());
  CHECK(SimpleDataset(std::vector<float>()).size() == 0);
}

TEST_CASE("dataset: the samples that a sampler gives") {
  Dataset d = SimpleDataset(std::vector{10, 11, 12, 13});
  Dataset some = d.sample(SequentialSampler(2, 1));
  CHECK(some.size() == 2);
  CHECK(*some.get(0).data.as<int32_t>() == 11);
  CHECK_THROWS_AS(d.sample(SequentialSampler(2, 3)), IndexError);
}

TEST_CASE("loader: damaged samples are skipped when asked") {
  auto bad = [](int64_t first, int64_t end) {
    return Dataset(10, [=](int64_t i) {
      if (i >= first && i < end) throw IoError("[imread] " + std::to_string(i) + ".jpg: damaged");
      return Sample(float(i));
    });
  };
  auto read = [](const Dataset& d, int workers) {
    std::vector<std::vector<float>> all;
    for (Batch& batch : DataLoader(d, {.batch_size = 3, .workers = workers, .skip_corrupt = true}).sync()) {
      all.push_back(batch.data.asvector<float>());
      for (const SkippedSample& s : batch.skipped) {
        CHECK(s.reason == "[imread] " + std::to_string(s.index) + ".jpg: damaged");
        all.push_back({-float(s.index)});
      }
    }
    return all;
  };
  using Rows = std::vector<std::vector<float>>;
  for (int workers : {0, 1, 3}) {
    CHECK(read(bad(4, 5), workers) == Rows{{0, 1, 2}, {3, 5}, {-4}, {6, 7, 8}, {9}});
    CHECK(read(bad(2, 7), workers) == Rows{{0, 1}, {-2}, {7, 8}, {-3}, {-4}, {-5}, {-6}, {9}});
    CHECK(message([&] { read(bad(0, 10), workers); }) ==
          "[DataLoader] all 10 samples of the epoch were skipped; the first: [imread] 0.jpg: damaged");
  }
  CHECK(message([&] {
          for (Batch& batch : DataLoader(bad(4, 5), {.batch_size = 3}).sync()) CHECK(batch.size() == 3);
        }) == "[imread] 4.jpg: damaged while loading sample 4 for batch 1");
  Dataset other(4, [](int64_t i) {
    if (i == 2) throw ValueError("[fn] wrong");
    return Sample(float(i));
  });
  CHECK(message([&] { read(other, 1); }) == "[fn] wrong while loading sample 2 for batch 0");
}

}  // namespace arrays_test

// Functions that make batches of samples: stacked, padded, listed, each array in its own way.
#include <catch2/catch.hpp>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/tests/engine/support.h"

namespace batchify_test {

using namespace kaon;
using namespace kaon::gluon::data;
using batchify::List;
using batchify::Pad;
using batchify::Stack;
using batchify::Tuple;

namespace {

HostTensor ints(std::vector<int32_t> v) { return HostTensor(Shape(int64_t(v.size())), v); }

// Three sequences, their labels and masks.
Dataset sequences() {
  return SimpleDataset(
      std::vector<std::tuple<HostTensor, int>>{{ints({1, 2, 3, 4}), 0}, {ints({4, 5, 6}), 1}, {ints({8, 2}), 2}});
}

std::vector<Batch> batches_of(const Dataset& d, BatchifyFunction fn, int workers = 2, int64_t size = 3) {
  std::vector<Batch> all;
  for (Batch& batch : DataLoader(d, {.batch_size = size, .workers = workers}, std::move(fn)).sync())
    all.push_back(batch);
  return all;
}

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

using Values = std::vector<float>;

}  // namespace

TEST_CASE("batchify: Pad fills up along an axis") {
  const Batch plain = batches_of(sequences(), Tuple(Pad(), Stack()))[0];
  CHECK(plain.size() == 3);
  CHECK(plain.data.shape() == Shape(3, 4));
  CHECK(plain.data.dtype() == DType::int32);
  CHECK(plain.data.asvector<float>() == Values{1, 2, 3, 4, 4, 5, 6, 0, 8, 2, 0, 0});
  CHECK(plain.label.asvector<float>() == Values{0, 1, 2});

  Tuple all(Pad({.pad_val = -1, .ret_length = true, .dtype = DType::float16, .round_to = 3}), Stack());
  const Batch batch = batches_of(sequences().named({"tokens", "class"}), all)[0];
  REQUIRE(batch.num_arrays() == 3);
  CHECK(batch["tokens"].shape() == Shape(3, 6));
  CHECK(batch["tokens"].dtype() == DType::float16);
  CHECK(batch[0].asvector<float>() == Values{1, 2, 3, 4, -1, -1, 4, 5, 6, -1, -1, -1, 8, 2, -1, -1, -1, -1});
  CHECK(batch["tokens_length"].dtype() == DType::int32);
  CHECK(batch[1].asvector<float>() == Values{4, 3, 2});
  CHECK(batch["class"].asvector<float>() == Values{0, 1, 2});
}

TEST_CASE("batchify: Pad along another axis, and with nothing to fill") {
  auto matrices = SimpleDataset(std::vector<int>{1, 3, 0}, [](int n) {
    HostTensor t({2, n, 2}, DType::uint8);
    for (int64_t i = 0; i < t.size(); ++i) t.mutable_as<uint8_t>()[i] = uint8_t(i + 1);
    return Sample(t);
  });
  for (int axis : {1, -2}) {
    const Batch batch = batches_of(matrices, Pad({.axis = axis, .pad_val = 9}))[0];
    CHECK(batch.data.shape() == Shape(3, 2, 3, 2));
    CHECK(batch.data.asvector<float>() == Values{1, 2, 9, 9,  9,  9,  3, 4, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6,
                                                 7, 8, 9, 10, 11, 12, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9});
  }
  auto empty = SimpleDataset(std::vector<int>{0, 0}, [](int) { return Sample(HostTensor({0, 3}, DType::float64)); });
  CHECK(batches_of(empty, Pad())[0].data.shape() == Shape(2, 0, 3));
  CHECK(batches_of(empty, Pad(), 0, 1)[1].data.shape() == Shape(1, 0, 3));
}

TEST_CASE("batchify: List leaves arrays as they are, each function treats all arrays alike") {
  const Batch batch = batches_of(sequences(), Tuple(List(), Stack()))[0];
  REQUIRE(batch.num_arrays() == 2);
  REQUIRE(batch.list(0).size() == 3);
  CHECK(batch.list(0)[1].asvector<float>() == Values{4, 5, 6});
  CHECK_FALSE(batch.data.defined());
  CHECK(batch.label.asvector<float>() == Values{0, 1, 2});
  CHECK(batches_of(sequences(), batchify::AsList(), 0, 2)[1].list(1).size() == 1);
  CHECK(message([&] { (void)batch.list(1); }) ==
        "[Batch] list: expected an array that batchify::List makes, got 1 of 2");

  auto pairs = SimpleDataset(std::vector<std::pair<int, float>>{{1, 2.0f}, {3, 4.0f}});
  const Batch stacked = batches_of(pairs, Stack())[0];
  CHECK(stacked.data.asvector<float>() == Values{1, 3});
  CHECK(stacked.label.dtype() == DType::float32);
}

TEST_CASE("batchify: any callable makes a batch, or one array of it") {
  auto of_samples = [](std::vector<Sample> samples) {
    int32_t sum = 0;
    for (const Sample& s : samples) sum += *s.label.as<int32_t>();
    return std::vector<NDArray>{HostTensor(sum).to_array()};
  };
  CHECK(batches_of(sequences(), of_samples)[0].data.asvector<float>() == Values{3});
  auto whole = [](std::vector<Sample> samples) { return Batch(samples[0].data.to_array(), NDArray(), 1); };
  CHECK(batches_of(sequences(), whole, 1, 2)[1].data.asvector<float>() == Values{8, 2});
  auto first = [](const batchify::Column& c) { return c.items[0].to_array() * 2; };
  const Batch batch = batches_of(sequences(), Tuple(first, Stack()))[0];
  CHECK(batch.data.asvector<float>() == Values{2, 4, 6, 8});
}

TEST_CASE("batchify: batches do not depend on the number of workers") {
  Dataset d(40, [](int64_t i) {
    return std::pair(HostTensor(Shape(i % 7), std::vector<float>(size_t(i % 7), float(i))), int(i));
  });
  auto numbers = [&](int workers) {
    std::vector<Values> all;
    for (const Batch& b : batches_of(d, Tuple(Pad({.ret_length = true}), Stack()), workers, 6)) {
      for (const NDArray& a : b.arrays()) all.push_back(a.asvector<float>());
    }
    return all;
  };
  const auto expected = numbers(0);
  CHECK(expected.size() == 7 * 3);
  for (int workers : {1, 4}) CHECK(numbers(workers) == expected);
}

TEST_CASE("batchify: functions may push operators, on engines of every size") {
  test::at_thread_counts([](Engine&) {
    auto scaled = [](const batchify::Column& c) { return batchify::Stack()(c)[0].array * 2 + 1; };
    auto counts = SimpleDataset(std::vector<int>{1, 2, 3, 4, 5});
    for (int workers : {0, 2}) {
      const auto batches = batches_of(counts, scaled, workers, 2);
      REQUIRE(batches.size() == 3);
      CHECK(batches[1].data.asvector<float>() == Values{7, 9});
      CHECK(batches[2].data.asvector<float>() == Values{11});
    }
  });
}

TEST_CASE("batchify: messages say which array and which shapes") {
  auto load = [](BatchifyFunction fn, const Dataset& d = sequences()) {
    return message([&] { batches_of(d, std::move(fn)); });
  };
  CHECK(load({}) ==
        "[DataLoader] the samples of a batch must agree in data: expected shape (4,), got shape (3,) (batchify::Pad "
        "fills up) while loading sample 1 for batch 0");
  CHECK(load(Stack()) ==
        "[DataLoader] the samples of a batch must agree in data: expected shape (4,), got shape (3,) (batchify::Pad "
        "fills up) while making batch 0");
  CHECK(load(Pad()) == "[batchify::Pad] axis 0 is out of range for label of shape () while making batch 0");
  CHECK(load(Tuple(Pad())) ==
        "[batchify::Tuple] expected samples of 1 arrays, one for each function, got 2 while making batch 0");
  CHECK(load(Tuple(Pad({.axis = 1}), Stack())) ==
        "[batchify::Pad] axis 1 is out of range for data of shape (4,) while making batch 0");
  CHECK(load(Tuple(Pad({.pad_val = 0.5}), Stack())) ==
        "[batchify::Pad] pad_val for data: expected a number of dtype int32, got 0.5 while making batch 0");
  Dataset other(3, [](int64_t i) { return Sample(HostTensor({3, i + 1}, DType::float32)); });
  CHECK(load(Pad(), other) ==
        "[batchify::Pad] data: shapes may differ along axis 0 alone, got (3, 1) and (3, 2) while making batch 0");
  Dataset mixed(3, [](int64_t i) { return i == 1 ? Sample(ints({1})) : Sample(HostTensor(Shape(1), DType::int8)); });
  CHECK(load(Pad(), mixed) == "[batchify::Pad] data: expected one dtype, got int8 and int32 while making batch 0");
  CHECK(batches_of(mixed, Pad({.dtype = DType::float64}))[0].data.dtype() == DType::float64);
  Dataset fewer(3, [](int64_t i) { return i == 1 ? Sample(1) : Sample(1, 2); });
  CHECK(load(Stack(), fewer) ==
        "[batchify] the samples of a batch must have as many arrays: expected 2, got 1 while making batch 0");
  CHECK(message([] { Pad({.round_to = -1}); }) == "[batchify::Pad] round_to: expected at least 0, got -1");
  CHECK(message([] { Tuple({}); }) == "[batchify::Tuple] expected at least one function, got none");
}

}  // namespace batchify_test

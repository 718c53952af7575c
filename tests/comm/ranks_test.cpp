// Collectives. Every rank runs every case: mpirun -n 2 kaon_comm_tests.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kaon/comm/communicator.h"
#include "kaon/engine/engine.h"
#include "kaon/kaon.h"

namespace ranks_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {

const comm::Communicator& world() {
  static const comm::Communicator all = comm::mpi({.timeout = std::chrono::seconds(60)});
  return all;
}

// Small whole numbers, so that sums are exact in every dtype.
double value(int rank, int64_t i) { return double((i * 7 + rank * 3) % 5) + (rank % 2); }

NDArray values(int rank, int64_t n, DType dtype) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(value(rank, i));
  return NDArray::from(v.data(), v.size(), Shape(n), dtype);
}

std::vector<double> reduced(int64_t n, comm::Reduce op, int size) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    double r = value(0, i);
    for (int rank = 1; rank < size; ++rank) {
      const double v = value(rank, i);
      r = op == comm::Reduce::min    ? std::min(r, v)
          : op == comm::Reduce::max  ? std::max(r, v)
          : op == comm::Reduce::prod ? r * v
                                     : r + v;
    }
    out.push_back(op == comm::Reduce::mean ? r / size : r);
  }
  return out;
}

}  // namespace

TEST_CASE("comm: all_reduce in every dtype, reduction and size, also in place") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8, DType::int8,
                            DType::int16, DType::uint16, DType::int32, DType::uint32, DType::int64, DType::uint64}) {
    for (const auto op :
         {comm::Reduce::sum, comm::Reduce::mean, comm::Reduce::min, comm::Reduce::max, comm::Reduce::prod}) {
      if (op == comm::Reduce::mean && !is_floating(dtype)) continue;
      for (const int64_t n : {0, 1, 3, 1001}) {
        CAPTURE(name_of(dtype), int(op), n);
        const NDArray x = values(world().rank(), n, dtype);
        const NDArray y = world().all_reduce(x, op);
        CHECK(y.dtype() == dtype);
        const std::vector<double> expected = reduced(n, op, world().size());
        const std::vector<double> got = y.asvector<double>();
        REQUIRE(got.size() == expected.size());
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-2));
        if (op != comm::Reduce::mean) CHECK(got == expected);
        CHECK(x.asvector<double>() == values(world().rank(), n, dtype).asvector<double>());
        world().all_reduce_in_place(x, op);
        CHECK(x.asvector<double>() == got);
      }
    }
  }
  const NDArray some = NDArray::from(std::vector<int>{world().rank() == 0, 0}.data(), 2, {2}, DType::boolean);
  CHECK(world().all_reduce(some, comm::Reduce::max).asvector<int>() == std::vector<int>{1, 0});
}

TEST_CASE("comm: NaN stays in min and max, whichever rank has it") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    for (const int64_t n : {9, 70'001}) {
      for (int rank = 0; rank < world().size(); ++rank) {
        CAPTURE(name_of(dtype), n, rank);
        const double own = world().rank() == rank ? double(NAN) : 5.0;
        for (const auto op : {comm::Reduce::min, comm::Reduce::max}) {
          const NDArray y = world().all_reduce(nd.full({n}, own, {.dtype = dtype}), op);
          CHECK(nd.isnan(y).sum().asscalar<double>() == double(n));
        }
      }
    }
  }
}

TEST_CASE("comm: what writes in place refuses an array that is part of a recorded computation") {
  NDArray x = nd.ones({3});
  x.attach_grad();
  autograd::record([&] {
    NDArray h = x * 2;
    CHECK_THROWS_WITH(world().broadcast(h), Contains("[broadcast] writing in place to an array that is part"));
    CHECK_THROWS_AS(world().all_reduce_in_place(h), StateError);
    CHECK_THROWS_AS(world().all_reduce_by_priority(h, 1), StateError);
    const NDArray apart = h.detach().copy();
    world().broadcast(apart);
    CHECK(apart.asvector<float>() == std::vector<float>(3, 2));
    return h;
  }).backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>(3, 2));
}

TEST_CASE("comm: a part of an array, and an array without dimensions") {
  NDArray x = nd.zeros({3, 4});
  world().all_reduce_in_place(nd.ones({4}));
  NDArray row = x[1];
  row += 1;
  world().all_reduce_in_place(row);
  const float n = float(world().size());
  CHECK(x.asvector<float>() == std::vector<float>{0, 0, 0, 0, n, n, n, n, 0, 0, 0, 0});
  const NDArray scalar = NDArray::from(&n, 1, Shape());
  CHECK(world().all_reduce(scalar).asscalar<float>() == n * n);
}

TEST_CASE("comm: reduce_scatter, all_gather and broadcast") {
  const int size = world().size(), rank = world().rank();
  const NDArray x = values(rank, 6 * size, DType::float32).reshape({2 * size, 3});
  const NDArray part = world().reduce_scatter(x);
  CHECK(part.shape() == Shape(2, 3));
  const std::vector<double> sums = reduced(6 * size, comm::Reduce::sum, size);
  CHECK(part.asvector<double>() == std::vector<double>(sums.begin() + 6 * rank, sums.begin() + 6 * rank + 6));
  const NDArray all = world().all_gather(part);
  CHECK(all.shape() == Shape(2 * size, 3));
  CHECK(all.asvector<double>() == sums);
  for (int root = 0; root < size; ++root) {
    const NDArray b = values(rank, 100, DType::int32);
    world().broadcast(b, root);
    CHECK(b.asvector<double>() == values(root, 100, DType::int32).asvector<double>());
  }
  CHECK(world().all_gather(nd.zeros({0, 3})).shape() == Shape(0, 3));
}

TEST_CASE("comm: reduce_scatter and all_gather of parts that differ by rank") {
  const int size = world().size(), rank = world().rank();
  std::vector<int64_t> rows;
  int64_t total = 0, before = 0;
  for (int r = 0; r < size; ++r) {
    rows.push_back(r == 1 ? 0 : 2 * r + 1);
    if (r < rank) before += rows.back();
    total += rows.back();
  }
  const int64_t mine = rows[size_t(rank)];
  const NDArray part = world().reduce_scatter(values(rank, 3 * total, DType::float32).reshape({total, 3}), rows);
  CHECK(part.shape() == Shape(mine, 3));
  const std::vector<double> sums = reduced(3 * total, comm::Reduce::sum, size);
  CHECK(part.asvector<double>() == std::vector<double>(sums.begin() + 3 * before, sums.begin() + 3 * (before + mine)));
  const NDArray all = world().all_gather(part, rows);
  CHECK(all.shape() == Shape(total, 3));
  CHECK(all.asvector<double>() == sums);
  rows.push_back(1);
  CHECK_THROWS_WITH(world().all_gather(part, rows), Contains("[all_gather]") && Contains("ranks"));
  rows.pop_back();
  rows[0] += 1;
  CHECK_THROWS_AS(world().reduce_scatter(nd.ones({total, 3}), rows), ShapeError);
  rows[0] = -1;
  CHECK_THROWS_AS(world().all_gather(part, rows), ValueError);
}

TEST_CASE("comm: long arrays, of more pieces than are under way at a time") {
  const int size = world().size(), rank = world().rank();
  // The last one is longer than all that may be under way, and no whole number of pieces or elements a rank.
  for (const int64_t n : {17'001, 100'003, 1'500'001}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::uint8}) {
      CAPTURE(n, name_of(dtype));
      const NDArray x = values(rank, n, dtype), before = x.copy();
      const NDArray expected = NDArray::from(reduced(n, comm::Reduce::sum, size).data(), size_t(n), Shape(n), dtype);
      CHECK(nd.array_equal(world().all_reduce(x), expected).asscalar<bool>());
      CHECK(nd.array_equal(x, before).asscalar<bool>());
      world().all_reduce_in_place(x);
      CHECK(nd.array_equal(x, expected).asscalar<bool>());
    }
  }
}

TEST_CASE("comm: thousands of short sums, some of them beside other calls, each have the ranks' sum") {
  const comm::Communicator part = world().split(0, -world().rank());  // the same ranks, numbered from the other end
  const int size = world().size();
  for (int i = 0; i < 3000; ++i) {
    const int64_t n = 1 + int64_t(i) * 37 % (i % 10 == 0 ? 9000 : 300);
    CAPTURE(i, n);
    const NDArray x = nd.full({n}, i + world().rank()), y = nd.full({n}, 2 * i);
    const NDArray sum = world().all_reduce(x), other = part.all_reduce(y);
    if (i % 7 == 0) world().broadcast(x);
    if (i % 16 < 13) continue;  // several are under way at a time
    const auto holds = [&](const NDArray& a, int expected) {
      return nd.array_equal(a, nd.full({n}, expected)).asscalar<bool>();
    };
    REQUIRE(holds(sum, i * size + size * (size - 1) / 2));
    REQUIRE(holds(other, 2 * i * size));
    if (i % 7 == 0) REQUIRE(holds(x, i));
  }
}

TEST_CASE("comm: short sums are added up by one tree, through memory and by messages") {
  // Ranks beyond the last power of two are added to a neighbour first; then pairs, pairs of pairs, and so on.
  const int size = world().size(), pairs = size - int(std::bit_floor(unsigned(size)));
  for (const int64_t n : {5, 3000}) {
    const auto number = [](int rank, int64_t i) { return std::sin(float(i * 13 + rank * 7 + 1)) * float(1 << rank); };
    std::vector<float> mine, expected;
    for (int64_t i = 0; i < n; ++i) {
      mine.push_back(number(world().rank(), i));
      std::vector<float> values;
      for (int r = 0; r < size; ++r) {
        if (r < 2 * pairs && r % 2 == 1) values.back() += number(r, i);
        else values.push_back(number(r, i));
      }
      for (; values.size() > 1; values.resize(values.size() / 2)) {
        for (size_t k = 0; k < values.size() / 2; ++k) values[k] = values[2 * k] + values[2 * k + 1];
      }
      expected.push_back(values[0]);
    }
    CHECK(world().all_reduce(nd.array(mine, {n})).asvector<float>() == expected);
  }
}

TEST_CASE("comm: short sums have the same bits on every rank, also of NaN and zeros of both signs") {
  const int rank = world().rank();
  for (const int64_t n : {4, 1000, 9000}) {
    std::vector<float> special;
    for (int64_t i = 0; i < n; ++i) {
      const auto nan = [&](uint32_t payload) { return std::bit_cast<float>(0x7fc00000 | payload); };
      const float values[] = {nan(uint32_t(rank) + 1), rank % 2 ? 0.0f : -0.0f, std::sin(float(i * (rank + 1))),
                              -nan(7)};
      special.push_back(values[i % 4]);
    }
    for (const auto op : {comm::Reduce::sum, comm::Reduce::min, comm::Reduce::max, comm::Reduce::prod}) {
      CAPTURE(n, int(op));
      const NDArray mine = world().all_reduce(nd.array(special, {n}), op);
      const std::vector<float> all = world().all_gather(mine.reshape({1, n})).asvector<float>();
      for (int r = 0; r < world().size(); ++r) {
        CHECK(std::memcmp(&all[size_t(r * n)], mine.asvector<float>().data(), size_t(n) * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("comm: long sums have the same bits on every rank, and in every run") {
  const int64_t n = 300'007;
  const NDArray x = nd.random_normal({n}) * (world().rank() + 1);
  const NDArray sum = world().all_reduce(x);
  CHECK(nd.array_equal(world().all_reduce(x), sum).asscalar<bool>());
  const NDArray all = world().all_gather(sum.reshape({1, n}));
  for (int r = 0; r < world().size(); ++r) CHECK(nd.array_equal(all[r], sum).asscalar<bool>());
}

TEST_CASE("comm: long parts that differ by rank, one of them empty") {
  const int size = world().size(), rank = world().rank();
  std::vector<int64_t> rows;
  int64_t total = 0, before = 0;
  for (int r = 0; r < size; ++r) {
    rows.push_back(r == 1 ? 0 : 40'003 * (r + 1));
    if (r < rank) before += rows.back();
    total += rows.back();
  }
  const int64_t mine = rows[size_t(rank)];
  const NDArray x = values(rank, 3 * total, DType::float32).reshape({total, 3}), kept = x.copy();
  const NDArray sums = nd.array(reduced(3 * total, comm::Reduce::sum, size), {total, 3});
  const NDArray part = world().reduce_scatter(x, rows);
  CHECK(part.shape() == Shape(mine, 3));
  if (mine > 0) CHECK(nd.array_equal(part, sums.slice(before, before + mine)).asscalar<bool>());
  CHECK(nd.array_equal(x, kept).asscalar<bool>());
  CHECK(nd.array_equal(world().all_gather(part, rows), sums).asscalar<bool>());
}

TEST_CASE("comm: two ranks that send large arrays to each other, and a ring") {
  const int size = world().size(), rank = world().rank();
  if (size < 2) return;
  const int64_t n = 1 << 20;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int round = 0; round < 3; ++round) {
    world().send(values(rank, n, DType::float32), next);
    const NDArray got = world().recv({n}, DType::float32, before);
    CHECK(nd.array_equal(got, values(before, n, DType::float32)).asscalar<bool>());
  }
}

TEST_CASE("comm: calls run ahead, in their order, while the program computes") {
  const int size = world().size(), rank = world().rank();
  NDArray x = nd.full({1000}, rank + 1);
  double expected = 0;
  for (int r = 0; r < size; ++r) expected += r + 1;
  NDArray total = nd.zeros({1000});
  for (int i = 0; i < 100; ++i) {
    // of other lengths on each rank: the slower one is waited for
    NDArray y = x * (i % 7);
    for (int k = 0; k < (rank == 0 ? 20 : 1); ++k) y = y + 0;
    total += world().all_reduce(y);
  }
  double factor = 0;
  for (int i = 0; i < 100; ++i) factor += i % 7;
  CHECK(total.asvector<float>() == std::vector<float>(1000, float(expected * factor)));
}

namespace {
Task<double> sum_of_ranks(const comm::Communicator& all) {
  const NDArray mine = nd.full({1}, all.rank());
  const NDArray sum = co_await all.all_reduce(mine);
  co_await all.barrier();
  co_return sum.data<const float>()[0];
}
Task<void> check_sum(const comm::Communicator& all) {
  const double sum = co_await sum_of_ranks(all);
  CHECK(sum == all.size() * (all.size() - 1) / 2);
}
}  // namespace

TEST_CASE("comm: no worker waits for a rank that comes late to a collective") {
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  const int rank = world().rank(), size = world().size();
  const comm::Communicator words = world().split(0, rank);
  const NDArray x = values(rank, 7, DType::float32);
  for (int late = 0; late < size; ++late) {
    // The late rank calls after the only worker of each other rank has computed something else.
    for (int r = 0; rank == late && r < size; ++r) {
      if (r != late) words.recv({8}, DType::float32, r).wait_to_read();
    }
    const NDArray sum = world().all_reduce(x, comm::Reduce::sum);
    const NDArray larger = world().all_reduce(nd.ones({100'000}), comm::Reduce::sum);
    const NDArray most = world().all_reduce(x, comm::Reduce::max);
    if (rank != late) {
      const NDArray other = nd.dot(nd.ones({2, 3}), nd.ones({3, 4}));
      CHECK(other.asvector<float>() == std::vector<float>(8, 3.0f));
      words.send(other, late);
    }
    CHECK(sum.asvector<double>() == reduced(7, comm::Reduce::sum, size));
    CHECK(larger.asvector<double>() == std::vector<double>(100'000, size));
    CHECK(most.asvector<double>() == reduced(7, comm::Reduce::max, size));
  }
}

TEST_CASE("comm: a collective is awaited") { CHECK(run_main(check_sum(world())) == 0); }

TEST_CASE("comm: on an engine without workers, and under random schedules") {
  for (const int kind : {0, 1, 2, 3}) {
    CAPTURE(kind);
    EngineOptions options;
    if (kind == 0) options.threads = 0;
    if (kind > 0) options.schedule = Schedule::random(uint64_t(kind));
    Engine engine(options);
    EngineScope scope(engine);
    NDArray x = nd.full({10}, world().rank());
    NDArray y = world().all_reduce(x + 1), z = world().all_reduce(x * 2);
    NDArray w = world().all_reduce(y + z);
    const float s = float(world().size()), ranks = s * (s - 1) / 2;
    CHECK(w.asvector<float>() == std::vector<float>(10, s * (ranks + s + 2 * ranks)));
  }
}

TEST_CASE("comm: split by color, in the order of key") {
  const int size = world().size(), rank = world().rank();
  const comm::Communicator half = world().split(rank % 2, -rank);
  REQUIRE(half.defined());
  const int members = (size + 1 - rank % 2) / 2;
  CHECK(half.size() == members);
  CHECK(half.rank() == members - 1 - rank / 2);
  double expected = 0;
  for (int r = rank % 2; r < size; r += 2) expected += r;
  // calls of both communicators, mixed
  const NDArray a = half.all_reduce(nd.full({3}, rank)), b = world().all_reduce(nd.ones({3})),
                c = half.all_reduce(nd.ones({1}));
  CHECK(a.asvector<double>() == std::vector<double>(3, expected));
  CHECK(b.asvector<double>() == std::vector<double>(3, size));
  CHECK(c.asvector<double>() == std::vector<double>(1, members));
  CHECK_FALSE(world().split(rank == 0 ? 0 : -1).defined() != (rank == 0));
}

TEST_CASE("comm: bad input is refused before anything is sent") {
  const auto& w = world();
  CHECK_THROWS_AS(w.all_reduce(nd.ones({2}, {.dtype = DType::int32}), comm::Reduce::mean), TypeError);
  CHECK_THROWS_AS(w.all_reduce(nd.cast(nd.ones({2}), DType::boolean)), TypeError);
  CHECK_THROWS_WITH(w.reduce_scatter(nd.ones(Shape())), Contains("[reduce_scatter]") && Contains("()"));
  if (w.size() > 1) CHECK_THROWS_AS(w.reduce_scatter(nd.ones({w.size() + 1})), ShapeError);
  CHECK_THROWS_AS(w.all_gather(nd.ones(Shape())), ShapeError);
  CHECK_THROWS_WITH(w.broadcast(nd.ones({1}), w.size()), Contains("expected a rank below"));
  CHECK_THROWS_AS(w.send(nd.ones({1}), w.rank()), ValueError);
  CHECK_THROWS_AS(w.recv({1}, DType::float32, -1), ValueError);
  CHECK_THROWS_AS(comm::mpi({.timeout = std::chrono::milliseconds(1)}), ValueError);
  CHECK_THROWS_AS(comm::Communicator().rank(), StateError);
  if (gpu_count() == 0) CHECK_THROWS_WITH(comm::nccl(), Contains("this rank has no GPU"));
  CHECK(w.failure().empty());
  w.barrier().wait_to_read();
}

}  // namespace ranks_test

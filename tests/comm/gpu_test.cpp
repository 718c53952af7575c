// Collectives on arrays of GPUs. Every rank runs every case, with a GPU of its own.
#include <catch2/catch.hpp>
#include <numeric>

#include "kaon/comm/communicator.h"
#include "kaon/engine/engine.h"
#include "kaon/kaon.h"
#include "support.h"

namespace gpu_test {

using namespace kaon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

namespace {

const comm::Communicator& world() {
  static const comm::Communicator all = comm::nccl({.timeout = std::chrono::seconds(60)});
  return all;
}
Device own() { return world().device(); }

// Small whole numbers, so that sums are exact in every dtype.
NDArray values(int rank, int64_t n, DType dtype) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(double((i * 7 + rank * 3) % 5) + (rank % 2));
  return NDArray::from(v.data(), v.size(), Shape(n), dtype);
}

// What the two ways give must be the same bits: the numbers are small and whole.
void check_equal(const NDArray& on_gpu, const NDArray& on_cpu) {
  CHECK(on_gpu.device() == own());
  CHECK(on_gpu.dtype() == on_cpu.dtype());
  CHECK(on_gpu.shape() == on_cpu.shape());
  CHECK(on_gpu.asvector<double>() == on_cpu.asvector<double>());
}

constexpr DType all_dtypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                                DType::int8,    DType::int16,   DType::uint16,  DType::int32,    DType::uint32,
                                DType::int64,   DType::uint64,  DType::boolean};

}  // namespace

TEST_CASE("comm gpu: all_reduce and reduce_scatter as on the CPU, in every dtype and reduction", "[cuda]") {
  for (const DType dtype : all_dtypes) {
    for (const auto op :
         {comm::Reduce::sum, comm::Reduce::mean, comm::Reduce::min, comm::Reduce::max, comm::Reduce::prod}) {
      if (op == comm::Reduce::mean && !is_floating(dtype)) continue;
      if (dtype == DType::boolean && op != comm::Reduce::min && op != comm::Reduce::max) continue;
      CAPTURE(name_of(dtype), int(op));
      const int64_t n = dtype == DType::float32 && op == comm::Reduce::sum ? 40'000 : 12;  // more than one piece
      const NDArray host = values(world().rank(), n, dtype), x = host.as_in_context(own());
      if (dtype == DType::int16 || dtype == DType::uint16) {
        CHECK_THROWS_AS(world().all_reduce(x, op), TypeError);
        CHECK_THROWS_WITH(world().reduce_scatter(x, op), Contains("no arithmetic on " + std::string(name_of(dtype))));
        continue;
      }
      check_equal(world().all_reduce(x, op), world().all_reduce(host, op));
      check_equal(world().reduce_scatter(x, op), world().reduce_scatter(host, op));
      CHECK(x.asvector<double>() == host.asvector<double>());
      world().all_reduce_in_place(x, op);
      world().all_reduce_in_place(host, op);
      check_equal(x, host);
    }
  }
}

TEST_CASE("comm gpu: what moves values only takes every dtype", "[cuda]") {
  const int size = world().size(), rank = world().rank(), other = rank ^ 1;
  for (const DType dtype : all_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray host = values(rank, 5, dtype), x = host.as_in_context(own());
    check_equal(world().all_gather(x), world().all_gather(host));
    if (other < size) {
      check_equal(world().exchange(x, other), values(other, 5, dtype));
      CHECK(world().exchange(host, other).asvector<double>() == values(other, 5, dtype).asvector<double>());
      world().send(x, other);
      check_equal(world().recv({5}, dtype, other, own()), values(other, 5, dtype));
    }
    check_equal(world().exchange(x, rank), host);
    for (int root = 0; root < size; ++root) {
      const NDArray b = host.as_in_context(own()).copy();
      world().broadcast(b, root);
      check_equal(b, values(root, 5, dtype));
    }
  }
  const NDArray large = values(rank, 100'000, DType::float32).as_in_context(own());
  if (other < size) check_equal(world().exchange(large, other), values(other, 100'000, DType::float32));
}

TEST_CASE("comm gpu: parts that differ by rank, of every size, and arrays without elements", "[cuda]") {
  const int size = world().size(), rank = world().rank();
  for (const int64_t each : {1, 20'000}) {
    for (const DType dtype : {DType::float32, DType::int16}) {
      std::vector<int64_t> rows;
      for (int r = 0; r < size; ++r) rows.push_back(r == 1 ? 0 : 2 * r + 1);
      const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t(0));
      const NDArray host = values(rank, total * each, dtype).reshape({total, each}), x = host.as_in_context(own());
      if (dtype == DType::float32) check_equal(world().reduce_scatter(x, rows), world().reduce_scatter(host, rows));
      const NDArray part = host.slice(0, rows[size_t(rank)]).copy();
      check_equal(world().all_gather(part.as_in_context(own()), rows), world().all_gather(part, rows));
    }
  }
  const NDArray none = nd.zeros({0, 3}, {.device = own()});
  CHECK(world().all_reduce(none).shape() == Shape(0, 3));
  CHECK(world().all_gather(none).shape() == Shape(0, 3));
  CHECK(world().reduce_scatter(none).shape() == Shape(0, 3));
  world().broadcast(none);
  const std::vector<int64_t> no_rows(size_t(size), 0);
  CHECK(world().all_gather(none, no_rows).shape() == Shape(0, 3));
  if (size > 1) CHECK(world().exchange(none, rank ^ 1).shape() == Shape(0, 3));
}

TEST_CASE("comm gpu: a part of an array, and an array without dimensions", "[cuda]") {
  NDArray x = nd.zeros({3, 4}, {.device = own()});
  NDArray row = x[1];
  row += 1;
  world().all_reduce_in_place(row);
  const float n = float(world().size());
  CHECK(x.asvector<float>() == std::vector<float>{0, 0, 0, 0, n, n, n, n, 0, 0, 0, 0});
  const NDArray scalar = NDArray::from(&n, 1, Shape()).as_in_context(own());
  CHECK(world().all_reduce(scalar).asscalar<float>() == n * n);
}

// One order of calls for both, and what one gives is what the other one takes.
TEST_CASE("comm gpu: calls on GPUs and on the CPU take turns", "[cuda]") {
  const int size = world().size(), rank = world().rank();
  NDArray on_gpu = nd.full({100}, rank + 1, {.device = own()}), on_cpu = nd.full({100}, rank + 1);
  for (int i = 0; i < 10; ++i) {
    on_gpu = world().all_reduce(on_gpu) / size;
    on_cpu = world().all_reduce(on_cpu) / size;
    NDArray sum = world().all_reduce(on_gpu.as_in_context(cpu()) + on_cpu);
    on_gpu = sum.as_in_context(own()) / (2 * size) + rank;
    on_cpu = world().all_reduce(on_gpu, comm::Reduce::max).as_in_context(cpu());
    world().barrier();
  }
  const std::vector<float> all = on_cpu.asvector<float>();
  CHECK(all == world().all_reduce(on_cpu, comm::Reduce::max).asvector<float>());
  CHECK(all[0] == Approx((size + 1) / 2.0 + 9 * (size - 1) / 1.0).epsilon(0.5));
}

TEST_CASE("comm gpu: a sum waits for what computes its input, and what uses it for the sum", "[cuda]") {
  const int size = world().size();
  NDArray x = nd.ones({50, 50}, {.device = own()});
  for (int i = 0; i < 5; ++i) {
    NDArray y = nd.dot(x, x) / 50;
    world().all_reduce_in_place(y);
    x = y / size;
    y += 1;  // after the sum has read it
  }
  CHECK(x.asvector<float>() == std::vector<float>(2500, 1));
}

namespace {
Task<double> sum_of_ranks() {
  const NDArray mine = nd.full({1}, world().rank(), {.device = own()});
  const NDArray sum = co_await world().all_reduce(mine);
  co_await world().barrier();
  const NDArray host = co_await sum.as_in_context(cpu());
  co_return host.data<const float>()[0];
}
Task<void> check_sum() {
  const double sum = co_await sum_of_ranks();
  CHECK(sum == world().size() * (world().size() - 1) / 2);
}
}  // namespace

TEST_CASE("comm gpu: a collective is awaited", "[cuda]") { CHECK(run_main(check_sum()) == 0); }

TEST_CASE("comm gpu: on an engine without workers, and under a random schedule", "[cuda]") {
  for (const bool is_random : {false, true}) {
    EngineOptions options;
    if (is_random) options.schedule = Schedule::random(1);
    else options.threads = 0;
    Engine engine(options);
    EngineScope scope(engine);
    const NDArray x = nd.full({10}, world().rank(), {.device = own()});
    const NDArray y = world().all_reduce(x + 1), z = world().all_reduce(x * 2);
    const float s = float(world().size()), ranks = s * (s - 1) / 2;
    CHECK(world().all_reduce(y + z).asvector<float>() == std::vector<float>(10, s * (ranks + s + 2 * ranks)));
  }
}

TEST_CASE("comm gpu: communicators of some of the ranks, mixed with that of all", "[cuda]") {
  const int size = world().size(), rank = world().rank();
  const comm::Communicator half = world().split(rank % 2, -rank);
  CHECK(half.device() == own());
  double expected = 0;
  for (int r = rank % 2; r < size; r += 2) expected += r;
  for (int i = 0; i < 3; ++i) {
    const NDArray x = nd.full({3}, rank, {.device = own()}), one = nd.ones({3}, {.device = own()});
    const NDArray a = half.all_reduce(x), b = world().all_reduce(one), c = half.all_reduce(one);
    CHECK(b.asvector<double>() == std::vector<double>(3, size));
    CHECK(a.asvector<double>() == std::vector<double>(3, expected));
    CHECK(c.asvector<double>() == std::vector<double>(3, half.size()));
  }
}

TEST_CASE("comm gpu: what cannot be done is refused by name", "[cuda]") {
  const NDArray x = nd.ones({2}, {.device = own()});
  CHECK_THROWS_AS(world().all_reduce(nd.cast(x, DType::int32), comm::Reduce::mean), TypeError);
  CHECK_THROWS_WITH(world().send(x, world().rank()), Contains("this rank itself"));
  CHECK_THROWS_WITH(world().all_reduce(nd.cast(x, DType::uint16)), Contains("uint16") && Contains("CPU"));
  if (gpu_count() > 1) {
    CHECK_THROWS_WITH(world().all_reduce(nd.ones({2}, {.device = gpu((own().index + 1) % 2)})),
                      Contains("the GPU of this rank"));
    CHECK(own() == gpu(world().local_rank()));
  }
  CHECK(world().failure().empty());
}

}  // namespace gpu_test

// What users of other systems suffered from on GPUs: rows of users.md. On the emulator every order of streams that they
// have not been told to keep happens.
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "kaon/asio.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/gpu_stream.h"
#include "kaon/engine/profiler.h"
#include "kaon/kaon.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/support/skip.h"

namespace gpu_rows_test {

using namespace kaon;
using namespace kaon::engine;

namespace {

Task<float> chain(int length) {
  NDArray x = nd.zeros({16}, {.device = gpu(0)});
  for (int i = 0; i < length; ++i) {
    x = x + 1;
    co_await x;
  }
  NDArray sum = x.sum();
  co_return co_await sum.item<float>();
}

Task<std::vector<float>> four_chains() {
  std::vector<Task<float>> chains;
  for (int i = 0; i < 4; ++i) chains.push_back(chain(100));
  std::vector<float> sums = co_await when_all(std::move(chains));
  co_return sums;
}

Task<void> awaits(NDArray y) { co_await y; }

}  // namespace

TEST_CASE("users row 8: a GPU that does not exist is refused at the call, with its number and how many there are",
          "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const std::string count = std::to_string(gpu_count()) + " usable";
  CHECK_THROWS_WITH(nd.ones({2}, {.device = gpu(99)}), Catch::Contains("gpu(99)") && Catch::Contains(count));
  CHECK_THROWS_WITH(nd.array({1, 2}, {2}, {.device = gpu(99)}), Catch::Contains("gpu(99)"));
  CHECK_THROWS_AS(nd.random_normal({2}, {.ctx = gpu(99)}), DeviceError);
  gluon::nn::Dense net(2, {.in_units = 2});
  CHECK_THROWS_AS(net.initialize(init::One(), gpu(99)), DeviceError);
}

TEST_CASE("users row 15: memory that is dropped while another stream reads it is reused after that", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  constexpr int64_t n = 4096;
  std::vector<NDArray> copies;
  for (int i = 0; i < 200; ++i) {
    NDArray x = nd.full({n}, i, {.device = gpu(0)});
    copies.push_back(x.as_in_context(cpu()));  // read on the stream that copies to the host
    x = NDArray();
    NDArray next = nd.full({n}, -1, {.device = gpu(0)});  // the same memory, on the stream that computes
  }
  for (int i = 0; i < 200; ++i) {
    REQUIRE(copies[size_t(i)].asvector<float>() == std::vector<float>(size_t(n), float(i)));
  }
  nd.waitall();
  CHECK(Gpu::of(gpu(0)).memory.stats().live <= 64 * n * sizeof(float));
}

TEST_CASE("users row 42: a loader's batches are copied to the GPU ahead of the program", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  std::vector<float> values(100), labels(25);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = float(i);
  gluon::data::ArrayDataset set(nd.array(values, {25, 4}), nd.array(labels, {25}));
  gluon::data::DataLoader loader(set, {.batch_size = 4, .prefetch = 3, .device = gpu(0)});
  std::vector<float> seen;
  for (auto& batch : loader.sync()) {
    CHECK(batch.data.device() == gpu(0));
    CHECK(batch.label.device() == gpu(0));
    const NDArray twice = batch.data * 2;
    for (float v : twice.asvector<float>()) seen.push_back(v / 2);
  }
  CHECK(seen == values);
  CHECK_THROWS_AS(gluon::data::DataLoader(set, {.batch_size = 4, .device = gpu(99)}), DeviceError);
}

TEST_CASE("users row 44: work on a caller's stream is in order with ours, without a wait on the host",
          "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  DeviceDriver& driver = Gpu::of(gpu(0)).driver;
  const std::unique_ptr<Stream> stream = driver.make_stream();  // stands for a cudaStream_t of the program's
  CallerStream mine(gpu(0), stream->native());
  constexpr int64_t n = 1000;
  constexpr size_t bytes = n * sizeof(float);
  NDArray x = nd.zeros({n}, {.device = gpu(0)}), y = nd.zeros({n}, {.device = gpu(0)});
  for (int round = 0; round < 300; ++round) {
    const void* in = mine.begin(*x.node().buffer, false);
    void* out = mine.begin(*y.node().buffer, true);
    driver.copy(out, in, bytes, *stream);  // stands for the program's kernel: y = x
    mine.end();
    x = y + 1;
  }
  CHECK(x.asvector<float>() == std::vector<float>(size_t(n), 300));
  CHECK_THROWS_AS(mine.begin(*nd.zeros({3}).node().buffer, false), ValueError);
  sync_wait([](NDArray a) -> Task<void> {
    NDArray ready = co_await a;
    CHECK(ready.asvector<float>()[0] == 299.0f);
  }(y));
}

TEST_CASE("caller's stream: backward refuses an array that a caller's kernel has changed", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const std::unique_ptr<Stream> stream = Gpu::of(gpu(0)).driver.make_stream();
  CallerStream mine(gpu(0), stream->native());
  NDArray x = nd.ones({4}, {.device = gpu(0)});
  x.attach_grad();
  for (bool writes : {false, true}) {
    NDArray y = autograd::record([&] { return x * x; });
    mine.begin(*x.node().buffer, writes);
    mine.end();
    if (writes) CHECK_THROWS_AS(y.backward(), StateError);
    else CHECK_NOTHROW(y.backward());
  }
}

TEST_CASE("users row 46: many awaited operations while memory comes and goes end all", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    while (!stop) {
      NDArray x = nd.ones({100'000}, {.device = gpu(0)});
      x.wait_to_read();
      Gpu::of(gpu(0)).memory.trim();
    }
  });
  CHECK(sync_wait(four_chains()) == std::vector<float>(4, 1600));
  stop = true;
  churn.join();
}

TEST_CASE("gpu: an Asio program waits by completion token, on its own executor", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  boost::asio::io_context context;
  const auto here = std::this_thread::get_id();
  int completed = 0;
  for (int i = 0; i < 20; ++i) {
    NDArray x = nd.full({1000}, i, {.device = gpu(0)}) + 1;
    x.async_wait(boost::asio::bind_executor(context, [&, x, i](std::exception_ptr failure) {
      CHECK(!failure);
      CHECK(std::this_thread::get_id() == here);
      CHECK(x.asvector<float>()[999] == float(i + 1));
      ++completed;
    }));
  }
  context.run();
  CHECK(completed == 20);
}

TEST_CASE("gpu: what it runs stands in the trace", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  engine.profiler().start();
  NDArray x = nd.ones({1000}, {.device = gpu(0)});
  NDArray y = nd.exp(x);
  CHECK(y.as_in_context(cpu()).asvector<float>()[999] == Approx(2.7182818f));
  nd.waitall();
  const auto of_gpu = [&] {
    std::vector<Profiler::Event> events = engine.profiler().events();
    std::erase_if(events, [](const Profiler::Event& e) { return std::string_view(e.category) != "gpu"; });
    return events;
  };
  CHECK(test::becomes_true([&] { return of_gpu().size() == 3; }));  // written when the GPU has told its times
  engine.profiler().stop();
  int computed = 0, copied = 0;
  for (const Profiler::Event& e : of_gpu()) {
    CHECK(e.end >= e.begin);
    CHECK(e.site.line() != 0);
    computed += e.thread == Profiler::first_gpu_track;
    copied += e.thread == Profiler::first_gpu_track + uint32_t(Lane::to_host);
  }
  CHECK(computed == 2);
  CHECK(copied == 1);
}

TEST_CASE("gpu: out of memory says who holds it, and is over when something is dropped", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  nd.waitall();
  StreamPool& memory = Gpu::of(gpu(0)).memory;
  memory.set_limit(memory.stats().live + (8 << 20));
  {
    NDArray kept = nd.ones({1 << 20}, {.device = gpu(0)});
    NDArray large = nd.ones({2 << 20}, {.device = gpu(0)});
    CHECK_THROWS_AS(large.wait_to_read(), MemoryError);
    CHECK_THROWS_WITH(large.wait_to_read(),
                      Catch::Contains("8388608 bytes of device memory") && Catch::Contains("_ones"));
    CHECK(kept.sum().asscalar<float>() == float(1 << 20));
  }
  NDArray again = nd.ones({3 << 19}, {.device = gpu(0)});
  CHECK(again.sum().asscalar<float>() == float(3 << 19));
  memory.set_limit(0);
}

TEST_CASE("gpu: two of them compute side by side and exchange arrays", "[gluon][cuda][two]") {
  if (!test::has_gpu()) return;
  if (gpu_count() < 2) return test::skip("there is one GPU");
  NDArray a = nd.ones({1000}, {.device = gpu(0)}), b = nd.ones({1000}, {.device = gpu(1)});
  for (int round = 0; round < 50; ++round) {
    a = a + b.as_in_context(gpu(0));
    b = b + a.as_in_context(gpu(1)) * 0;
  }
  CHECK(a.asvector<float>() == std::vector<float>(1000, 51));
  CHECK(b.asvector<float>() == std::vector<float>(1000, 1));
  CHECK_THROWS_AS(a + b, DeviceError);
  gluon::nn::Dense net(4, {.in_units = 1000});
  net.initialize(init::One(), gpu(1));
  net.hybridize({.static_alloc = true});
  for (int round = 0; round < 4; ++round) {
    CHECK(net(b.reshape({1, 1000})).asvector<float>() == std::vector<float>(4, 1000));
  }
  net.collect_params().reset_ctx(gpu(0));
  CHECK(net(nd.ones({1, 1000}, {.device = gpu(0)})).asvector<float>() == std::vector<float>(4, 1000));
}

// Last: the GPU is gone after this.
TEST_CASE("users row 7: a GPU that fails says so at every wait, with what was launched last; the CPU goes on",
          "[gluon][cuda][fault]") {
  if (!test::has_gpu()) return;
  auto* fail = reinterpret_cast<void (*)(int)>(gpu_library_function("kaon_emulator_fail"));
  if (!fail) return test::skip("this GPU is none of the emulator's");
  NDArray x = nd.ones({16}, {.device = gpu(0)}), host = nd.ones({16});
  x.wait_to_read();
  fail(0);
  NDArray y = x + 41;
  const auto message = [](auto&& wait) -> std::string {
    try {
      wait();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "nothing thrown";
  };
  const auto check = [](const std::string& text, const char* also = "gpu(0)") {
    CHECK_THAT(text, Catch::Contains("illegal") && Catch::Contains("gpu(0)") && Catch::Contains(also));
  };
  check(message([&] { sync_wait(awaits(y)); }), "gpu_rows_test.cpp");
  check(message([&] { y.wait_to_read(); }));
  check(message([&] { y.asvector<float>(); }));
  check(message([&] { (y * 2).wait_to_read(); }), "launched last");  // at once
  check(message([] { nd.waitall(); }));
  check(message([] { nd.waitall(); }));
  CHECK((host + 1).asvector<float>() == std::vector<float>(16, 2));
}

}  // namespace gpu_rows_test

// The CUDA library: that it is there and says what there is; and, where there is a GPU, streams in order on it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <random>
#include <string>
#include <thread>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/stream_completions.h"
#include "kaon/engine/device/stream_pool.h"
#include "kaon/engine/error.h"
#include "kaon/tests/support/skip.h"

namespace cuda_test {

using namespace kaon;
using namespace kaon::engine;

namespace {

// Three streams of a GPU and arrays on it, copied to and fro.
struct ThreeStreams {
  DeviceDriver& driver = gpu_driver(0);
  StreamOrder order;
  std::vector<std::unique_ptr<Stream>> streams, signals;
  StreamPool pool{driver, order};
  StreamCompletions completions{order, [](std::function<void()> work) { std::thread(std::move(work)).detach(); }};

  ThreeStreams() {
    for (int i = 0; i < 3; ++i) {
      streams.push_back(driver.make_stream());
      signals.push_back(driver.make_stream());
      completions.add(order.add(*streams.back()), *signals.back());
    }
  }
  ~ThreeStreams() { finish(); }
  void finish() {
    for (uint32_t s = 0; s < streams.size(); ++s) {
      std::promise<void> done;
      completions.when_done(order.end(s), [&](std::exception_ptr) { done.set_value(); });
      done.get_future().get();
    }
  }
};

}  // namespace

TEST_CASE("cuda: the number of GPUs, and why there is none", "[engine][cuda]") {
  const std::string reason = gpu_unavailable_reason();
  INFO(reason);
  CHECK((gpu_count() > 0) == reason.empty());
  if (KAON_HAS_CUDA) {  // then the library is loaded, and it is the driver or the GPU that lacks
    CHECK_THAT(reason, !Catch::Contains("cannot be loaded") && !Catch::Contains("does not export"));
  }
  CHECK_THROWS_AS(gpu_driver(gpu_count()), DeviceError);
}

TEST_CASE("cuda: random copies on three streams give what a serial program gives", "[engine][cuda]") {
  if (!test::has_gpu()) return;
  constexpr size_t floats = 1 << 20, bytes = floats * sizeof(float);
  constexpr int num_arrays = 6;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    ThreeStreams gpu;
    std::mt19937_64 random(seed);
    auto below = [&](uint64_t n) { return uint32_t(random() % n); };
    struct Array {
      void* block;
      StreamUse use;
      float expected;
    };
    std::vector<Array> arrays(num_arrays);
    auto* host = static_cast<float*>(gpu.driver.allocate_pinned((num_arrays + 1) * bytes));
    REQUIRE(host);
    auto fill = [&](Array& a, uint32_t s, float value, float* from) {
      std::fill_n(from, floats, value);
      a.use.order_before(gpu.order, s, true);
      gpu.driver.copy(a.block, from, bytes, *gpu.streams[s]);
      a.use.add(gpu.order.launched(s), true);
      a.expected = value;
    };
    for (int i = 0; i < num_arrays; ++i) {
      const uint32_t s = below(3);
      arrays[i].block = gpu.pool.allocate(bytes, s);
      fill(arrays[i], s, float(i), host + size_t(i) * floats);
    }
    for (int step = 0; step < 100; ++step) {
      const uint32_t s = below(3);
      Array &from = arrays[below(num_arrays)], &to = arrays[below(num_arrays)];
      if (&from == &to) continue;
      from.use.order_before(gpu.order, s, false);
      to.use.order_before(gpu.order, s, true);
      gpu.driver.copy(to.block, from.block, bytes, *gpu.streams[s]);
      const StreamPoint point = gpu.order.launched(s);
      from.use.add(point, false);
      to.use.add(point, true);
      to.expected = from.expected;
    }
    gpu.finish();
    for (Array& a : arrays) {
      const uint32_t s = below(3);
      float* back = host + size_t(num_arrays) * floats;
      gpu.driver.copy(back, a.block, bytes, *gpu.streams[s]);
      a.use.add(gpu.order.launched(s), false);
      gpu.finish();
      CHECK(std::all_of(back, back + floats, [&](float v) { return v == a.expected; }));
      gpu.pool.free(a.block, bytes, a.use.points());
    }
    gpu.driver.free_pinned(host);
  }
}

}  // namespace cuda_test

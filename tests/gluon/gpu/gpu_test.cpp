// Arrays, nets and training on a GPU. Run on the emulator (tests/cuda_emulator) where there is none.
#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

namespace gpu_test {

namespace nn = kaon::gluon::nn;
using namespace kaon;
using namespace kaon::engine;

namespace {

std::vector<float> some_values(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(int(i * 37 % 101) - 50) / 16;
  return v;
}

}  // namespace

TEST_CASE("gpu: arrays go there and back, whole, as views and converted", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  for (int64_t n : {int64_t(0), int64_t(1), int64_t(1000), int64_t(3'000'001)}) {
    const NDArray x = nd.array(some_values(n), {n});
    const NDArray there = x.as_in_context(gpu(0));
    CHECK(there.device() == gpu(0));
    CHECK(there.asvector<float>() == x.asvector<float>());
    CHECK(there.asvector<int32_t>() == x.asvector<int32_t>());
    CHECK(there.as_in_context(cpu()).asvector<float>() == x.asvector<float>());
  }
  const NDArray m = nd.array(some_values(12), {4, 3}, {.device = gpu(0)});
  CHECK(m[2].asvector<float>() == nd.array(some_values(12), {4, 3})[2].asvector<float>());
  CHECK(m.slice(1, 3).shape() == Shape(2, 3));
  NDArray host = nd.zeros({4, 3});
  m.copyto(host);
  CHECK(host.asvector<float>() == some_values(12));
  NDArray there = nd.zeros({4, 3}, {.device = gpu(0)});
  there.assign(host);
  CHECK(there.asvector<float>() == some_values(12));
  there.assign(nd.array({1, 2, 3}));  // broadcast across devices
  CHECK(there[3].asvector<float>() == std::vector<float>{1, 2, 3});
  there.assign(7);
  CHECK(there.asvector<float>() == std::vector<float>(12, 7));
  CHECK(nd.array({2.5}, {1}, {.device = gpu(0)}).asscalar<float>() == 2.5f);
}

TEST_CASE("gpu: the source of a copy may change at once", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  NDArray x = nd.zeros({100'000});
  for (int round = 0; round < 20; ++round) {
    x.assign(round);
    const NDArray there = x.as_in_context(gpu(0));
    x.assign(-1);
    const NDArray back = there.as_in_context(cpu());
    CHECK(back[0].asscalar<float>() == float(round));
    CHECK(back[99'999].asscalar<float>() == float(round));
  }
}

TEST_CASE("gpu: operators follow their arrays; mixing devices is refused by name", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const NDArray a = nd.ones({3, 4}, {.device = gpu(0)}), b = nd.ones({3, 4});
  CHECK((a + a).device() == gpu(0));
  CHECK_THROWS_WITH(a + b, Catch::Contains("gpu(0)") && Catch::Contains("cpu(0)") && Catch::Contains("as_in_context"));
  CHECK_THROWS_WITH(nd.ones({1}, {.device = gpu(7)}), Catch::Contains("gpu(7)"));
  CHECK_THROWS_WITH(a.as_in_context(gpu(63)), Catch::Contains("gpu(63)"));
  NDArray c = a + 1;
  c += a;
  c *= 2;
  CHECK(c.asvector<float>() == std::vector<float>(12, 6));
  NDArray rows = nd.zeros({4, 3}, {.device = gpu(0)});
  rows.slice(1, 3).assign(nd.ones({2, 3}));
  rows[3] += 5;
  CHECK(rows.asvector<float>() == std::vector<float>{0, 0, 0, 1, 1, 1, 1, 1, 1, 5, 5, 5});
}

TEST_CASE("gpu: coroutines wait for arrays, values and everything", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const auto work = []() -> Task<float> {
    NDArray x = nd.ones({64, 64}, {.device = gpu(0)});
    for (int i = 0; i < 20; ++i) x = x + 1;
    NDArray ready = co_await x;
    CHECK(ready.device() == gpu(0));
    const std::vector<float> values = co_await ready.host<float>();
    CHECK(values == std::vector<float>(64 * 64, 21));
    co_await Engine::current().idle();
    NDArray sum = x.sum();
    co_return co_await sum.item<float>();
  };
  CHECK(sync_wait(work()) == 64 * 64 * 21.0f);
  nd.waitall();
}

TEST_CASE("gpu: gradients cross devices", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();
  const NDArray loss = autograd::record([&] {
    const NDArray there = x.as_in_context(gpu(0));
    return (there * there).as_in_context(cpu()).sum();
  });
  loss.backward();
  CHECK(x.grad().device() == cpu());
  CHECK(x.grad().asvector<float>() == std::vector<float>{2, 4, 6});
}

TEST_CASE("gpu: a failure on the host poisons arrays there as anywhere", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  NDArray x = nd.ones({4});
  Engine::current().push({update(x.var())}, [](RunContext&) { throw ValueError("broken"); }, {.label = {"breaker"}});
  NDArray there = x.as_in_context(gpu(0));
  NDArray y = there + 1;
  CHECK_THROWS_WITH(y.asvector<float>(), Catch::Contains("broken"));
  there.assign(3);
  CHECK((there + 1).asvector<float>() == std::vector<float>(4, 4));
}

namespace {

nn::HybridSequential small_net() {
  nn::HybridSequential net;
  net.add(nn::Dense(16, {.activation = "relu"}), nn::Dense(8, {.activation = "tanh"}), nn::Dense(3));
  return net;
}

// The losses of a few steps of training, on that device.
std::vector<float> train(Device device, bool hybridized) {
  nn::HybridSequential net = small_net();
  random::seed(7);
  net.initialize(init::Xavier(), cpu());
  const NDArray data = nd.array(some_values(20 * 5), {20, 5});
  net(data);  // shapes, and the same values on every device
  net.collect_params().reset_ctx(device);
  if (hybridized) net.hybridize({.static_alloc = true});
  std::vector<float> classes(20);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = float(i % 3);
  const NDArray x = data.as_in_context(device), label = nd.array(classes, {20}).as_in_context(device);
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step) {
    const NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
    loss.backward();
    trainer.step(20);
    losses.push_back(loss.mean().asscalar<float>());
  }
  return losses;
}

}  // namespace

TEST_CASE("gpu: a net trains there as on the CPU, imperative and hybridized", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const std::vector<float> want = train(cpu(), false);
  CHECK(want.back() < want.front());
  for (bool hybridized : {false, true}) {
    const std::vector<float> got = train(gpu(0), hybridized);
    INFO("hybridized: " << hybridized);
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-3));
  }
}

}  // namespace gpu_test

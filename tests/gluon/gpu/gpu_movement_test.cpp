// Plans in buckets and gradients of indexing on a GPU. Run on the emulator (tests/cuda_emulator) where there is none.
#include "kaon/engine/device/backend.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/skip.h"

namespace gpu_movement_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

TEST_CASE("gpu movement: a net in buckets gives the rows that it was called with", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  auto net = ready(nn::HybridSequential(nn::Dense(16, {.activation = "relu"}), nn::Dense(4)));
  std::vector<std::vector<double>> expected;
  for (int n = 0; n <= 9; ++n) expected.push_back(values(net(numbers({n, 6}, uint32_t(n)))));
  net.collect_params().reset_ctx(gpu(0));
  net.hybridize({.static_alloc = true, .policy = PlanPolicy::bucket});
  for (int n = 9; n >= 0; --n) {
    INFO("n = " << n);
    const NDArray y = net(numbers({n, 6}, uint32_t(n)).as_in_context(gpu(0)));
    REQUIRE(y.device() == gpu(0));
    REQUIRE(y.shape() == Shape(n, 4));
    require_close(y.as_in_context(cpu()), expected[size_t(n)], 1e-5);
  }
}

TEST_CASE("gpu movement: gradients of an embedding add up in the same order every time", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const auto gradient = [](Device device) {
    NDArray weight = numbers({40, 6}).as_in_context(device);
    const NDArray words = nd.floor(nd.abs(numbers({60, 50}, 7)) * 40).as_in_context(device);
    weight.attach_grad();
    const NDArray scale = numbers({60, 50, 6}, 3).as_in_context(device);
    const NDArray loss =
        autograd::record([&] { return nd.Embedding(words, weight, {.input_dim = 40, .output_dim = 6}) * scale; });
    loss.backward();
    return values(weight.grad().as_in_context(cpu()));
  };
  const std::vector<double> first = gradient(gpu(0));
  CHECK(first == gradient(cpu()));
  for (int time = 0; time < 3; ++time) CHECK(first == gradient(gpu(0)));
}

}  // namespace gpu_movement_test

// One result, whatever the number of threads.
#include <bit>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace determinism_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// Every layer whose kernel is cut into pieces, adds up or draws.
nn::HybridSequential small_net() {
  return nn::HybridSequential(nn::Conv2D(6, {.kernel_size = 3}), nn::BatchNorm(), nn::Activation("relu"),
                              nn::MaxPool2D(), nn::Conv2D(8, {.kernel_size = 3, .padding = 1}), nn::AvgPool2D(),
                              nn::Flatten(), nn::Dense(32, {.activation = "tanh"}), nn::LayerNorm(), nn::Dropout(0.3),
                              nn::Dense(10));
}

uint64_t hash_of(const gluon::ParameterDict& parameters, uint64_t hash = 14695981039346656037u) {
  for (const gluon::Parameter& p : parameters) {
    for (float v : p.data().asvector<float>()) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 1099511628211u;
  }
  return hash;
}

enum class Run { imperative, exact, planned };

// Of all parameters and running statistics after 100 steps.
uint64_t trained(Run run, int threads) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  auto net = ready(small_net(), 11);
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  if (run != Run::imperative) {
    net.hybridize({.static_alloc = true, .static_shape = true, .exact = run == Run::exact});
    loss_fn.hybridize({.static_alloc = true, .static_shape = true, .exact = run == Run::exact});
  }
  net(numbers({2, 1, 14, 14}));
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9, .wd = 1e-4}));
  for (uint32_t i = 0; i < 100; ++i) {
    const int64_t batch = i % 10 == 9 ? 3 : 8;
    const NDArray x = numbers({batch, 1, 14, 14}, i), label = nd.floor((numbers({batch}, 1000 + i) + 1) * 5);
    const NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
    loss.backward();
    trainer.step(batch);
    if (i % 25 == 10) net(x);  // a prediction in between
  }
  const uint64_t hash = hash_of(net.collect_params());
  engine.wait_all();
  return hash;
}

}  // namespace

TEST_CASE("users row 58: 100 training steps give one hash with 0, 1, 2, 7 and 16 threads, imperative and hybridized",
          "[gluon][unsanitized]") {
  const uint64_t expected = trained(Run::imperative, 0);
  for (int threads : {1, 2, 7, 16}) {
    INFO(threads << " threads");
    CHECK(trained(Run::imperative, threads) == expected);
  }
  for (int threads : {0, 1, 2, 7, 16}) {
    INFO(threads << " threads, hybridized");
    CHECK(trained(Run::exact, threads) == expected);
  }
  const uint64_t planned = trained(Run::planned, 0);
  for (int threads : {2, 7}) {
    INFO(threads << " threads, hybridized with the faster kernels");
    CHECK(trained(Run::planned, threads) == planned);
  }
}

}  // namespace determinism_test

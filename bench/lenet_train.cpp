// LeNet training at batch 64: samples per second imperative and hybridized, beside the sum of its oneDNN primitives
// called bare in the same run.
#include "kaon/bench/lenet_bare.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {

constexpr int64_t batch = 64;

struct Run {
  nn::HybridSequential net;
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  std::unique_ptr<gluon::Trainer> trainer;
  NDArray data = nd.random_uniform({batch, 1, 28, 28});
  NDArray label = nd.arange(double(batch)) % 10;

  explicit Run(bool hybrid) {
    net.add(nn::Conv2D(20, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
            nn::Conv2D(50, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}), nn::Flatten(),
            nn::Dense(128, {.activation = "relu"}), nn::Dense(10));
    net.initialize(init::Xavier());
    net(data);
    if (hybrid) {
      net.hybridize({.static_alloc = true, .static_shape = true});
      loss_fn.hybridize({.static_alloc = true, .static_shape = true});
    }
    trainer = std::make_unique<gluon::Trainer>(net.collect_params(),
                                               optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
  }
  double samples_per_second() {
    constexpr int steps = 30;
    nd.waitall();
    double s = bench::seconds([&] {
      for (int i = 0; i < steps; ++i) {
        NDArray loss = autograd::record([&] { return loss_fn(net(data), label); });
        loss.backward();
        trainer->step(batch);
      }
      nd.waitall();
    });
    return double(steps * batch) / s;
  }
};

}  // namespace

int main() {
  bench::print_machine();
  bench::lenet_bare_ms(batch, 1, true);
  for (int threads : {1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Run imperative(false), hybrid(true);
    auto bare = [&] { return double(batch) / (bench::lenet_bare_ms(batch, threads) * 1e-3); };
    auto results = bench::interleave(
        5, {bare, [&] { return imperative.samples_per_second(); }, [&] { return hybrid.samples_per_second(); }});
    std::string t = "_threads" + std::to_string(threads);
    bench::print("lenet_bare_primitives" + t, results[0], "samples/s");
    bench::print("lenet_train_imperative" + t, results[1], "samples/s", "lenet_bare_primitives", results[0]);
    bench::print("lenet_train_hybridized" + t, results[2], "samples/s", "lenet_bare_primitives", results[0]);
    fmt::print("{{\"name\": \"lenet_step_over_bare_sum{}\", \"imperative\": {:.3f}, \"hybridized\": {:.3f}}}\n", t,
               results[0].median / results[1].median, results[0].median / results[2].median);
  }
}

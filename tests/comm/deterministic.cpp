// What a deterministic training gives, as checksums: the same lines for any number of ranks. Rank 0 prints them.
#include <fmt/format.h>

#include <cstring>

#include "support.h"

using namespace kaon;
using namespace kaon::ranks_test;

namespace {

gluon::nn::HybridSequential make_net() {
  namespace nn = gluon::nn;
  return nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3, .activation = "relu", .in_channels = 1}),
                              nn::BatchNorm({.in_channels = 4}), nn::MaxPool2D({.pool_size = 2}), nn::Flatten(),
                              nn::Dropout(0.3), nn::Dense(16, {.activation = "tanh", .in_units = 64}),
                              nn::Dense(4, {.in_units = 16}));
}

// FNV-1a of the weights' bits.
uint64_t checksum(const gluon::ParameterDict& parameters) {
  uint64_t h = 0xcbf29ce484222325;
  for (const gluon::Parameter& p : parameters) {
    if (p.grad_req() == GradReq::null) continue;  // running statistics are each rank's own
    for (const float v : p.data().asvector<float>()) {
      uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      h = (h ^ bits) * 0x100000001b3;
    }
  }
  return h;
}

uint64_t train(Mode mode, const gluon::TrainerOptions& options) {
  random::seed(7);
  gluon::nn::HybridSequential net = make_net();
  net.initialize(init::Xavier());
  if (mode == Mode::hybridized) net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}), options);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::TrainingStep step(net, loss, trainer);
  for (int i = 0; i < 4; ++i) {
    const NDArray x = part(numbers({16, 1, 10, 10}, i + 1)), y = part(labels(16, i));
    if (mode == Mode::training_step) {
      step(x, y);
    } else {
      const NDArray inputs[] = {x, y};
      trainer.backward_by_shards(inputs, [&](std::span<const NDArray> in) { return loss(net(in[0]), in[1]); });
      trainer.step(16);
    }
  }
  return checksum(net.collect_params());
}

}  // namespace

int main() {
  for (const Mode mode : all_modes) {
    for (const bool shard_states : {false, true}) {
      for (const double clip : {0.0, 0.5}) {
        const uint64_t sum = train(mode, {.clip_global_norm = clip,
                                          .kvstore = "dist_sync",
                                          .deterministic = true,
                                          .shards = 4,
                                          .shard_states = shard_states});
        if (rank() == 0) fmt::print("mode {} owners {} clip {}: {:016x}\n", int(mode), shard_states, clip, sum);
      }
    }
  }
}

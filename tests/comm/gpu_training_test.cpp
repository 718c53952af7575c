// Training over ranks with a GPU each: the weights are those of ranks that compute on their CPUs, within rounding.
#include "checks.h"
#include "kaon/gluon/kvstore/kvstore.h"

namespace gpu_training_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;

namespace {

Device own() { return comm::nccl().device(); }

template <class Net>
void initialize(const Net& net, Device device) {
  net.collect_params().initialize(init::Xavier(), device);
}

// Steps on GPUs beside the same on CPUs, both over the ranks.
void check_on_gpus(const optimizer::Optimizer& rule, Mode mode, const TrainerOptions& options = {},
                   double tolerance = 2e-4) {
  const int64_t all = 8 * ranks();
  nn::HybridSequential nets[] = {mlp(8), mlp(8)};
  random::seed(uint64_t(100 + rank()));  // other values on each rank, of which rank 0's count
  initialize(nets[0], own());
  initialize(nets[1], cpu());
  copy_parameters(nets[0], nets[1]);
  TrainerOptions over_ranks = options;
  over_ranks.kvstore = "dist_device_sync";
  const loss::SoftmaxCrossEntropyLoss loss;
  for (const nn::HybridSequential& net : nets) {
    const Device device = &net == nets ? own() : cpu();
    if (mode == Mode::hybridized) nn::HybridSequential(net).hybridize();
    Trainer trainer(net.collect_params(), rule, over_ranks);
    TrainingStep training_step(net, loss, trainer);
    for (int step = 0; step < 3; ++step) {
      const NDArray x = part(numbers({all, 10}, step + 1)).as_in_context(device),
                    y = part(labels(all, step)).as_in_context(device);
      if (mode == Mode::training_step) {
        training_step(x, y);
      } else if (options.deterministic) {
        const NDArray parts[] = {x, y};
        trainer.backward_by_shards(parts, [&](std::span<const NDArray> in) { return loss(net(in[0]), in[1]); });
        trainer.step(all);
      } else {
        autograd::record([&] { return loss(net(x), y); }).backward();
        trainer.step(all);
      }
    }
    CHECK(trainer.steps() == 3);
  }
  CHECK(nets[0].collect_params()[0].data().device() == own());
  check_same(nets[0], nets[1], tolerance);
}

const optimizer::SGD& momentum() {
  static const optimizer::SGD rule({.learning_rate = 0.1, .momentum = 0.9, .wd = 0.01});
  return rule;
}

}  // namespace

TEST_CASE("comm gpu training: in all three modes", "[cuda]") {
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_on_gpus(momentum(), mode);
  }
}

TEST_CASE("comm gpu training: clipped, compressed, with states on one rank each, deterministic", "[cuda]") {
  const optimizer::Adam adam({.learning_rate = 0.01});
  check_on_gpus(optimizer::SGD({.learning_rate = 0.5}), Mode::imperative, {.clip_global_norm = 0.1});
  check_on_gpus(momentum(), Mode::imperative, {.compression_params = {.type = "float16"}}, 2e-3);
  check_on_gpus(momentum(), Mode::imperative, {.compression_params = {.type = "2bit", .threshold = 0.3}});
  check_on_gpus(adam, Mode::imperative, {.shard_states = true});
  check_on_gpus(momentum(), Mode::training_step, {.shard_states = true});
  check_on_gpus(momentum(), Mode::imperative, {.deterministic = true});
  check_on_gpus(momentum(), Mode::training_step, {.deterministic = true});
}

TEST_CASE("comm gpu training: KVStore over ranks", "[cuda]") {
  const KVStore store = KVStore::create("dist_sync");
  const auto full = [](double value) { return nd.full({3}, value, {.device = own()}); };
  store.init("w", full(rank() + 5));
  NDArray out = full(0);
  store.pull("w", out);
  CHECK(out.asvector<float>() == std::vector<float>(3, 5));  // rank 0's
  store.push("w", full(rank() + 1));
  store.pull("w", out);
  CHECK(out.device() == own());
  CHECK(out.asvector<float>() == std::vector<float>(3, float(ranks() * (ranks() + 1)) / 2));
}

TEST_CASE("comm gpu training: statistics of a batch over all ranks", "[cuda]") {
  const NDArray whole = numbers({4 * ranks(), 3}, 1);
  std::vector<std::vector<float>> results;
  for (const Device device : {own(), cpu()}) {
    nn::SyncBatchNorm norm({.in_channels = 3}, comm::mpi());
    norm.collect_params().initialize(init::One(), device);
    NDArray x = part(whole).as_in_context(device);
    x.attach_grad();
    const NDArray y = autograd::record([&] { return norm(x) * x; });
    y.backward();
    for (const NDArray& a : {y, x.grad(), norm.running_mean.data()}) results.push_back(a.asvector<float>());
  }
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(results[i].size() == results[i + 3].size());
    for (size_t k = 0; k < results[i].size(); ++k) CHECK(results[i][k] == Approx(results[i + 3][k]).margin(1e-4));
  }
}

}  // namespace gpu_training_test

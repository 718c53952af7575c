// How gradients are added up and who updates: compression, a fixed tree, states of ranks' own.
#include "checks.h"
#include "kaon/gluon/kvstore/kvstore.h"

namespace sums_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

TEST_CASE("comm compression: 2bit sends thresholds and keeps what they leave, for each gradient") {
  const KVStore store = KVStore::create("dist_sync");
  store.set_gradient_compression({.type = "2bit", .threshold = 0.5});
  store.init("w", nd.zeros({7}));
  const std::vector<float> steps[] = {{0.3f, -0.3f, 0.5f, -0.5f, 2, 0, 0.1f}, {0.3f, -0.3f, 0, 0, 0, 0, 0.1f}};
  std::vector<float> left(7, 0);
  NDArray out = nd.zeros({7});
  for (int i = 0; i < 6; ++i) {
    const std::vector<float>& given = steps[i % 2];
    std::vector<float> expected(7);
    for (size_t k = 0; k < 7; ++k) {
      const float r = left[k] + given[k], sent = r >= 0.5f ? 0.5f : r <= -0.5f ? -0.5f : 0;
      left[k] = r - sent;
      expected[k] = sent * float(ranks());
    }
    const NDArray gradient = nd.array(given, {7});
    store.push("w", gradient);
    store.pull("w", out);
    CHECK(out.asvector<float>() == expected);
    CHECK(gradient.asvector<float>() == given);
  }
  CHECK_THROWS_WITH(store.push("w", nd.zeros({7}, {.dtype = DType::float64})), Contains("float32"));
}

TEST_CASE("comm compression: ranks with different gradients, more of them than one piece of work") {
  const KVStore store = KVStore::create("dist_sync");
  store.set_gradient_compression({.type = "2bit", .threshold = 1});
  const int64_t n = 100003;
  store.init("w", nd.zeros({n}));
  const auto sign_of = [](int r, int64_t i) { return float((i * 5 + r * 3) % 3 - 1); };
  std::vector<float> mine, expected;
  for (int64_t i = 0; i < n; ++i) {
    mine.push_back(sign_of(rank(), i));
    expected.push_back(0);
    for (int r = 0; r < ranks(); ++r) expected.back() += sign_of(r, i);
  }
  NDArray out = nd.zeros({n});
  store.push("w", nd.array(mine, {n}));
  store.pull("w", out);
  CHECK(out.asvector<float>() == expected);
}

TEST_CASE("comm compression: 16 bits train as one process does within their rounding, in all modes") {
  for (const Mode mode : all_modes) {
    for (const char* type : {"float16", "bfloat16"}) {
      CAPTURE(type, int(mode));
      const double rounding = type[0] == 'f' ? 2e-3 : 2e-2;
      check_training(optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}), mode,
                     {.compression_params = {.type = type}}, rounding);
    }
  }
}

TEST_CASE("comm compression: 2bit trains, in all modes, and ranks agree") {
  for (const Mode mode : all_modes) {
    nn::HybridSequential net = mlp();
    net.initialize(init::Xavier());
    if (mode == Mode::hybridized) net.hybridize();
    Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05}),
                    {.kvstore = "dist_sync", .compression_params = {.type = "2bit", .threshold = 0.05}});
    const loss::SoftmaxCrossEntropyLoss loss;
    TrainingStep step(net, loss, trainer);
    const int64_t all = 8 * ranks();
    const NDArray x = numbers({all, 10}, 1), y = labels(all, 0);
    const auto mean = [&] { return loss(net(x), y).mean().asscalar<float>(); };
    const float before = mean();
    for (int i = 0; i < 60; ++i) {
      if (mode == Mode::training_step) {
        step(part(x), part(y));
      } else {
        autograd::record([&] { return loss(net(part(x)), part(y)); }).backward();
        trainer.step(all);
      }
    }
    CAPTURE(int(mode));
    CHECK(mean() < before);
    check_same_on_ranks(net.collect_params());
  }
}

TEST_CASE("comm deterministic: as one process within rounding, in all modes, clipped and with owners too") {
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_training(optimizer::Adam({.learning_rate = 0.01}), mode, {.deterministic = true});
    check_training(optimizer::SGD({.learning_rate = 0.5}), mode, {.clip_global_norm = 0.1, .deterministic = true});
    check_training(optimizer::Adam(), mode, {.deterministic = true, .shard_states = true});
  }
}

TEST_CASE("comm deterministic: what it cannot do is refused by name") {
  nn::HybridSequential net = mlp();
  net.initialize();
  const auto make = [&](const TrainerOptions& options) {
    return Trainer(net.collect_params(), optimizer::SGD(), options);
  };
  CHECK_THROWS_WITH(make({.kvstore = "dist_sync", .deterministic = true, .shards = 6}), Contains("6 shards"));
  CHECK_THROWS_WITH(make({.kvstore = "dist_sync", .deterministic = true, .shards = 0}), Contains("power of two"));
  CHECK_THROWS_WITH(make({.kvstore = "dist_sync", .compression_params = {.type = "2bit"}, .deterministic = true}),
                    Contains("exclude each other"));
  Trainer trainer = make({.kvstore = "dist_sync", .deterministic = true});
  const auto loss = [&](std::span<const NDArray> in) { return net(in[0]); };
  autograd::record([&] { return net(nd.ones({8, 10})); }).backward();
  CHECK_THROWS_WITH(trainer.step(8), Contains("backward_by_shards"));
  const NDArray odd = nd.ones({8 / ranks() + 1, 10});
  if (ranks() < 8) {
    CHECK_THROWS_WITH(trainer.backward_by_shards(std::span(&odd, 1), loss), Contains("shards of a rank"));
  }
  CHECK_THROWS_AS(trainer.backward_by_shards({}, loss), ValueError);
  net.collect_params().set_grad_req(GradReq::add);
  const NDArray x = nd.ones({8, 10});
  CHECK_THROWS_WITH(trainer.backward_by_shards(std::span(&x, 1), loss), Contains("has add"));
}

TEST_CASE("comm owners: every optimizer, in all three modes, as one process with the whole batch") {
  for (const auto& [name, rule] : all_optimizers()) {
    for (const Mode mode : all_modes) {
      CAPTURE(name, int(mode));
      check_training(rule, mode, {.shard_states = true});
    }
  }
}

TEST_CASE("comm owners: gradients that are clipped, and compressed") {
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_training(optimizer::Adam({.learning_rate = 0.01}), mode, {.clip_global_norm = 0.1, .shard_states = true});
    check_training(optimizer::SGD({.learning_rate = 0.1}), mode,
                   {.compression_params = {.type = "float16"}, .shard_states = true}, 2e-3);
  }
}

TEST_CASE("comm owners: a rank keeps the states of its parameters alone, and fewer parameters than ranks") {
  for (const int layers : {1, 8}) {
    nn::HybridSequential net;
    for (int i = 0; i < layers; ++i) net.add(nn::Dense(16, {.use_bias = layers > 1, .in_units = 16}));
    net.initialize();
    Trainer trainer(net.collect_params(), optimizer::Adam(), {.kvstore = "dist_sync", .shard_states = true});
    for (int i = 0; i < 2; ++i) {
      autograd::record([&] { return net(part(numbers({2 * ranks(), 16}, i + 1))); }).backward();
      trainer.step(2 * ranks());
    }
    check_same_on_ranks(net.collect_params());
    // all of them, from whichever rank has them
    size_t states = 0;
    for (const auto& [name, array] : trainer.states()) {
      if (!name.starts_with("state")) continue;
      ++states;
      CHECK(nd.norm(array).asscalar<float>() > 0);
      CHECK(nd.array_equal(comm::mpi().all_reduce(array, comm::Reduce::max), array).asscalar<bool>());
    }
    CHECK(states == 2 * net.collect_params().size());
  }
}

TEST_CASE("comm compression: refused by name") {
  CHECK_THROWS_WITH(KVStore::create("dist_sync").set_gradient_compression({.type = "3bit"}),
                    Contains("3bit") && Contains("2bit, float16, bfloat16"));
  CHECK_THROWS_WITH(KVStore::create("dist_sync").set_gradient_compression({.type = "2bit", .threshold = 0}),
                    Contains("threshold"));
  CHECK_THROWS_WITH(KVStore::create("local").set_gradient_compression({.type = "2bit"}), Contains("'local'"));
}

}  // namespace sums_test

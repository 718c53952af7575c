// Training over ranks: each has its part of the batch, and all have the weights that one process would have.
#include <numeric>

#include "checks.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/kvstore/kvstore.h"

namespace training_test {

using namespace kaon;
using namespace kaon::gluon;
using Catch::Matchers::Contains;

using namespace kaon::ranks_test;

namespace {
std::vector<uint32_t> buckets_of(const Block& net) {
  std::vector<Parameter> all;
  for (const Parameter& p : net.collect_params()) all.push_back(p);
  detail::GradientBuckets buckets(comm::mpi(), {}, all);
  buckets.prepare();
  return buckets.buckets_of(all);
}
}  // namespace

TEST_CASE("comm: a bucket that is half full does not wait for gradients of the layer before") {
  nn::HybridSequential net(nn::Dense(2048, {.in_units = 2048}), nn::Dense(2048, {.in_units = 2048}));
  net.initialize(init::Zero());
  // weight, bias, weight, bias: the last bias is the first bucket, since the weight does not fit in it; the other one
  // goes with its weight
  CHECK(buckets_of(net) == std::vector<uint32_t>{2, 2, 1, 0});
}

TEST_CASE("comm: buckets become smaller towards the end of the backward, which hides no sum") {
  nn::HybridSequential net;  // 16 layers of 1 MB
  for (int i = 0; i < 16; ++i) net.add(nn::Dense(512, {.use_bias = false, .in_units = 512}));
  net.initialize(init::Zero());
  CHECK(buckets_of(net) == std::vector<uint32_t>{8, 7, 6, 5, 4, 4, 3, 3, 2, 2, 2, 1, 1, 1, 1, 0});
}

TEST_CASE("comm training: every optimizer, in all three modes, as one process with the whole batch") {
  for (const auto& [name, rule] : all_optimizers()) {
    for (const Mode mode : all_modes) {
      CAPTURE(name, int(mode));
      check_training(rule, mode);
    }
  }
}

TEST_CASE("comm training: SGLD, whose noise is that of one rank, gives all ranks the same weights") {
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    random::seed(uint64_t(20 + rank()));
    nn::HybridSequential net;
    net.add(nn::Dense(100, {.use_bias = false, .in_units = 100}));
    net.initialize(init::Zero());
    if (mode == Mode::hybridized) net.hybridize();
    gluon::Trainer trainer(net.collect_params(), optimizer::SGLD({.learning_rate = 0.01}), {.kvstore = "dist_sync"});
    TrainingStep step([&](auto x) { return net(x).sum(); }, trainer);
    const NDArray x = nd.zeros({1, 100});
    for (int i = 0; i < 2; ++i) {
      if (mode == Mode::training_step) {
        step(x);
      } else {
        autograd::record([&] { return net(x).sum(); }).backward();
        trainer.step(ranks());
      }
    }
    check_same_on_ranks(net.collect_params());
    // no gradient: the noise of two steps alone, 0.01 each
    const double variance = nd.mean(nd.square(net.collect_params()[0].data())).asscalar<double>();
    CHECK(variance == Approx(0.02).epsilon(0.1));
  }
  nn::HybridSequential net = mlp();
  net.initialize();
  CHECK_THROWS_WITH(
      gluon::Trainer(net.collect_params(), optimizer::SGLD(), {.kvstore = "dist_sync", .deterministic = true}),
      Contains("SGLD draws random numbers"));
}

TEST_CASE("comm training: clip_global_norm is that of the summed gradients") {
  for (const Mode mode : all_modes)
    check_training(optimizer::SGD({.learning_rate = 0.5}), mode, {.clip_global_norm = 0.1});
}

TEST_CASE("comm training: gradients in more than one bucket, and their arrays") {
  // 4 MB of weights: a small first bucket, and a second
  nn::HybridSequential net;
  net.add(nn::Dense(1000, {.in_units = 1000}), nn::Dense(200, {.in_units = 1000}));
  net.initialize(init::One());
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 1}), {.kvstore = "dist_sync"});
  const NDArray x = nd.full({1, 1000}, rank() + 1);
  for (int step = 0; step < 3; ++step) {
    autograd::record([&] { return net(x); }).backward();
    const auto before = net.collect_params()[3].grad().asvector<float>();
    trainer.allreduce_grads();
    const auto sum = net.collect_params()[3].grad().asvector<float>();
    for (size_t i = 0; i < sum.size(); ++i) REQUIRE(sum[i] == before[i] * float(ranks()));
    trainer.update(1);
    // the gradient of the last bias is 1 a rank
    CHECK(net.collect_params()[3].data().asvector<float>()[0] == 0.0f - float((step + 1) * ranks()));
  }
}

TEST_CASE("comm training: on two devices of each rank, gradients are added up once over all") {
  for (const bool in_halves : {false, true}) {
    nn::HybridSequential net;
    net.add(nn::Dense(1, {.use_bias = false, .in_units = 1}));
    net.collect_params().initialize(init::One(), std::vector<Device>{cpu(0), cpu(1)});
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 1}), {.kvstore = "dist_sync"});
    for (int step = 1; step <= 2; ++step) {
      std::vector<NDArray> losses;
      autograd::record([&] {
        for (const Device d : {cpu(0), cpu(1)}) losses.push_back(net(nd.ones({1, 1}).as_in_context(d)));
      });
      for (const NDArray& loss : losses) loss.backward();
      if (in_halves) {
        trainer.allreduce_grads();
        for (const NDArray& g : net.collect_params()[0].list_grad()) CHECK(g.asscalar<float>() == 2 * float(ranks()));
        trainer.update(1);
      } else {
        trainer.step(1);
      }
      for (const NDArray& w : net.collect_params()[0].list_data()) {
        CHECK(w.asscalar<float>() == 1 - float(step * 2 * ranks()));
      }
    }
  }
}

TEST_CASE("comm training: a parameter that one rank has not used counts as zero there and is updated everywhere") {
  nn::HybridSequential a, b;
  a.add(nn::Dense(1, {.use_bias = false, .in_units = 1}));
  b.add(nn::Dense(1, {.use_bias = false, .in_units = 1}));
  a.initialize(init::One());
  b.initialize(init::One());
  gluon::ParameterDict both = a.collect_params();
  both.update(b.collect_params());
  gluon::Trainer trainer(both, optimizer::SGD({.learning_rate = 1}), {.kvstore = "dist_sync"});
  const NDArray x = nd.ones({1, 1});
  for (int step = 1; step <= 2; ++step) {
    // every rank uses a, the last one alone uses b
    autograd::record([&] { return rank() == ranks() - 1 ? a(x) + b(x) : a(x); }).backward();
    trainer.step(1, true);
    CHECK(a.collect_params()[0].data().asscalar<float>() == 1 - float(step * ranks()));
    CHECK(b.collect_params()[0].data().asscalar<float>() == 1 - float(step));
  }
}

TEST_CASE("comm training: values that follow from the first batch are rank 0's from the first step on") {
  nn::HybridSequential net;
  net.add(nn::Dense(3));
  random::seed(uint64_t(rank()));
  net.initialize(init::Normal(1));
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0}), {.kvstore = "dist_sync"});
  autograd::record([&] { return net(nd.ones({2, 5})); }).backward();
  trainer.step(2);
  const NDArray w = net.collect_params()[0].data();
  CHECK(nd.array_equal(comm::mpi().all_reduce(w, comm::Reduce::max), comm::mpi().all_reduce(w, comm::Reduce::min))
            .asscalar<bool>());
}

TEST_CASE("comm training: KVStore over ranks") {
  const gluon::KVStore store = gluon::KVStore::create("dist_sync");
  CHECK(store.rank() == rank());
  CHECK(store.num_workers() == ranks());
  store.init("w", nd.full({2}, rank() + 5));
  NDArray out = nd.zeros({2});
  store.pull("w", out);
  CHECK(out.asvector<float>() == std::vector<float>(2, 5));  // rank 0's
  store.push("w", nd.full({2}, rank() + 1));
  store.pull("w", out);
  const float sum = float(ranks() * (ranks() + 1)) / 2;
  CHECK(out.asvector<float>() == std::vector<float>(2, sum));
  const NDArray one = nd.ones({3});
  NDArray total = nd.zeros({3});
  store.pushpull("not kept", std::span(&one, 1), std::span(&total, 1));
  CHECK(total.asvector<float>() == std::vector<float>(3, float(ranks())));
  CHECK(one.asvector<float>() == std::vector<float>(3, 1));
  store.set_optimizer(optimizer::SGD({.learning_rate = 0.5}));
  store.push("w", nd.ones({2}));
  store.pull("w", out);
  CHECK(out.asvector<float>() == std::vector<float>(2, sum - 0.5f * float(ranks())));
  store.barrier();
}

TEST_CASE("comm training: what cannot be done over ranks is refused by name") {
  CHECK_THROWS_WITH(gluon::KVStore::create("dist_async"), Contains("dist_async") && Contains("dist_sync"));
  nn::HybridSequential net = mlp();
  net.initialize();
  CHECK_THROWS_WITH(gluon::Trainer(net.collect_params(), optimizer::SGD(), {.shard_states = true}),
                    Contains("dist_sync") && Contains("'device'"));
}

TEST_CASE("comm training: nets that differ are named when the trainer is made") {
  if (ranks() == 1) return;
  nn::HybridSequential net;
  net.add(nn::Dense(2, {.in_units = 2}));
  if (rank() > 0) net.add(nn::Dense(2, {.in_units = 2}));
  net.initialize();
  const auto make = [](const nn::HybridSequential& n) {
    return Trainer(n.collect_params(), optimizer::SGD(), {.kvstore = "dist_sync"});
  };
  CHECK_THROWS_WITH(make(net), Contains("rank 0 has 2 parameters, rank 1 4"));
  nn::HybridSequential same;
  same.add(nn::Dense(rank() == 0 ? 2 : 3, {.in_units = 2}));
  same.initialize();
  CHECK_THROWS_WITH(make(same), Contains("rank 0 has parameter ") && Contains("(2, 2) float32") &&
                                    Contains(", rank 1 parameter ") && Contains("(3, 2) float32"));
  CHECK(comm::mpi().failure().empty());
}

}  // namespace training_test

// Trainer's overlap_update: parameters are updated bucket by bucket, while other sums are under way.
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "checks.h"
#include "kaon/engine/profiler.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/util/amp.h"

namespace overlap_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

namespace {

// Two buckets; with 1900 hidden units three.
nn::HybridSequential net_of_buckets(int hidden = 600) {
  nn::HybridSequential net;
  net.add(nn::Dense(hidden, {.activation = "relu", .in_units = 10}),
          nn::Dense(hidden, {.activation = "tanh", .in_units = hidden}), nn::Dense(4, {.in_units = hidden}));
  return net;
}

void train(const nn::HybridSequential& net, const optimizer::Optimizer& rule, Mode mode, TrainerOptions options,
           bool with_delays = false) {
  options.kvstore = "dist_sync";
  nn::HybridSequential own = net;
  if (mode == Mode::hybridized) own.hybridize({.exact = true});
  Trainer trainer(own.collect_params(), rule, options);
  const loss::SoftmaxCrossEntropyLoss loss;
  TrainingStep training_step(own, loss, trainer, {.exact = true});
  const int64_t all = 8 * ranks();
  for (int step = 0; step < 4; ++step) {
    NDArray x = part(numbers({all, 10}, step + 1)).copy();
    const NDArray y = part(labels(all, step));
    if (with_delays) {
      const unsigned each = unsigned(step * 7 + rank() * 13 + 5) * 2654435761u >> 20;
      x.engine().push({update(x.var())},
                      [each](RunContext&) { std::this_thread::sleep_for(std::chrono::microseconds(each * 4)); });
    }
    if (mode == Mode::training_step) {
      training_step(x, y);
    } else if (options.deterministic) {
      const NDArray parts[] = {x, y};
      trainer.backward_by_shards(parts, [&](std::span<const NDArray> in) { return loss(own(in[0]), in[1]); });
      trainer.step(all);
    } else {
      autograd::record([&] { return loss(own(x), y); }).backward();
      trainer.step(all);
    }
  }
  nd.waitall();
  CHECK(trainer.steps() == 4);
}

// With the option and without it.
void check_same_bits(const optimizer::Optimizer& rule, Mode mode, const TrainerOptions& options = {}, int hidden = 600,
                     bool with_delays = false) {
  random::seed(9);
  const nn::HybridSequential net = net_of_buckets(hidden), other = net_of_buckets(hidden);
  nn::HybridSequential(net).initialize(init::Xavier());
  nn::HybridSequential(other).initialize();
  copy_parameters(net, other);
  TrainerOptions overlapping = options;
  overlapping.overlap_update = true;
  train(net, rule, mode, overlapping, with_delays);
  train(other, rule, mode, options, with_delays);
  const auto p = net.collect_params(), q = other.collect_params();
  for (size_t k = 0; k < p.size(); ++k) {
    CAPTURE(p[k].name());
    CHECK(nd.array_equal(p[k].data(), q[k].data()).asscalar<bool>());
  }
  check_same_on_ranks(p);
}

void check_on(const EngineOptions& options) {
  Engine engine(options);
  EngineScope scope(engine);
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_same_bits(optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}), mode);
  }
}
void check_schedules(uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; ++seed) {
    CAPTURE(seed);
    check_on({.schedule = Schedule::random(seed)});
  }
}

bool has_ended(const NDArray& a) {
  return a.engine().read_now(a.var(), [] {});
}

}  // namespace

TEST_CASE("comm overlap: every optimizer, in all three modes, gives the bits that it gives without") {
  for (const auto& [name, rule] : all_optimizers()) {
    for (const Mode mode : all_modes) {
      CAPTURE(name, int(mode));
      check_same_bits(rule, mode);
    }
  }
}

TEST_CASE("comm overlap: three buckets, and ranks that come late") {
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_same_bits(optimizer::Adam({.learning_rate = 0.01}), mode, {}, 1900, true);
  }
}

TEST_CASE("comm overlap: with sums that are compressed, and deterministic ones") {
  const optimizer::SGD rule({.learning_rate = 0.1, .momentum = 0.9});
  for (const Mode mode : all_modes) {
    CAPTURE(int(mode));
    check_same_bits(rule, mode, {.compression_params = {.type = "bfloat16"}});
    check_same_bits(rule, mode, {.compression_params = {.type = "2bit", .threshold = 0.01}});
    check_same_bits(rule, mode, {.deterministic = true, .shards = 4});
  }
}

TEST_CASE("comm overlap: on an engine without workers, and under two random schedules") {
  check_on({.threads = 0});
  check_schedules(1, 2);
}

TEST_CASE("comm overlap: under 20 random schedules", "[slow]") { check_schedules(1, 20); }

TEST_CASE("comm overlap: a bucket is updated while another one waits for a rank") {
  if (ranks() == 1) return;
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  nn::HybridSequential net = net_of_buckets();
  net.initialize(init::Xavier());
  const auto p = net.collect_params();
  Trainer trainer(p, optimizer::SGD({.learning_rate = 0.1}), {.kvstore = "dist_sync", .overlap_update = true});
  const NDArray x = numbers({8, 10}, rank() + 1);
  const auto step = [&](std::atomic<bool>* may_end) {
    autograd::record([&] { return (net(x) * net(x)).sum(); }).backward();
    if (may_end && rank() == 1) {
      const NDArray late = p[0].grad();
      engine.push({update(late.var())}, [may_end](RunContext&) { may_end->wait(false); });
    }
    trainer.step(8 * ranks());
  };
  step(nullptr);  // gradients go into buckets
  nd.waitall();
  const NDArray first = p[0].data(), last = p[4].data();
  std::atomic<bool> may_end{false};
  step(&may_end);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!has_ended(last) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(has_ended(last));
  if (rank() == 1) CHECK(!has_ended(first));
  may_end = true;
  may_end.notify_all();
  nd.waitall();
  check_same_on_ranks(p);
}

TEST_CASE("comm overlap: the plan of a step is cut in front of what reads the parameters of another bucket") {
  if (ranks() == 1) return;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  const auto operations = [&](bool overlaps) {
    nn::HybridSequential net = net_of_buckets();
    net.initialize(init::Xavier());
    Trainer trainer(net.collect_params(), optimizer::SGD(), {.kvstore = "dist_sync", .overlap_update = overlaps});
    const loss::SoftmaxCrossEntropyLoss loss;
    TrainingStep step(net, loss, trainer);
    const NDArray x = numbers({8, 10}, rank() + 1), y = labels(8, rank());
    step(x, y);
    nd.waitall();
    Profiler& profiler = engine.profiler();
    profiler.start();
    step(x, y);
    nd.waitall();
    profiler.stop();
    std::pair<int, int> runs_and_updates;
    for (const auto& e : profiler.events()) {
      const std::string_view name = e.name;
      if (e.category != std::string_view("operator")) continue;
      runs_and_updates.first += name == "training step";
      runs_and_updates.second += name.starts_with("_kaon_multi_update");
    }
    return runs_and_updates;
  };
  // Three buckets: the last layer with a bias of the second, the second's weight, and the first layer. The second layer
  // reads of two.
  CHECK(operations(false) == std::pair(3, 1));
  CHECK(operations(true) == std::pair(4, 3));
}

TEST_CASE("comm overlap: what needs all gradients at once is refused by name") {
  nn::HybridSequential net = mlp();
  net.initialize();
  const auto make = [&](const optimizer::Optimizer& rule, TrainerOptions options, const char* kvstore = "dist_sync") {
    options.kvstore = kvstore;
    options.overlap_update = true;
    return Trainer(net.collect_params(), rule, options);
  };
  const optimizer::SGD sgd;
  CHECK_THROWS_WITH(make(sgd, {}, "device"), Contains("overlap_update") && Contains("dist_sync, got 'device'"));
  CHECK_THROWS_WITH(make(sgd, {.clip_global_norm = 1}), Contains("overlap_update") && Contains("clip_global_norm"));
  CHECK_THROWS_WITH(make(sgd, {.shard_states = true}), Contains("overlap_update") && Contains("shard_states"));
  CHECK_THROWS_WITH(make(optimizer::SGLD(), {}), Contains("overlap_update") && Contains("SGLD"));
  Trainer trainer = make(sgd, {});
  CHECK_THROWS_WITH(amp::init_trainer(trainer, {}), Contains("overflows") && Contains("overlap_update"));
}

TEST_CASE("comm: sums by priority have the bits of other sums, whatever their sizes and priorities") {
  const comm::Communicator world = comm::mpi();
  const int64_t sizes[] = {0, 1, 100, 5'000, 20'001, 70'000, 400'001, 3'000'000};
  for (int round = 0; round < 3; ++round) {
    std::vector<NDArray> expected, sums;
    for (int i = 0; i < 24; ++i) {
      const int64_t n = sizes[(i * 5 + round) % 8];
      const NDArray x = nd.random_uniform({n}) + rank();
      expected.push_back(world.all_reduce(x));
      sums.push_back(x.copy());
    }
    nd.waitall();
    for (int i = 0; i < 24; ++i) {
      if (i == 12) world.barrier();  // another call in between
      if ((i + rank()) % 3 == 0) {   // that comes late on some ranks
        sums[size_t(i)].engine().push({update(sums[size_t(i)].var())},
                                      [](RunContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
      }
      world.all_reduce_by_priority(sums[size_t(i)], round == 0 ? i : round == 1 ? -i : i * 7 % 5);
    }
    const NDArray after = world.all_reduce(nd.ones({1000}));
    for (size_t i = 0; i < sums.size(); ++i) {
      CAPTURE(round, i);
      CHECK(nd.array_equal(sums[i], expected[i]).asscalar<bool>());
    }
    CHECK(after.asvector<float>() == std::vector<float>(1000, float(ranks())));
  }
}

}  // namespace overlap_test

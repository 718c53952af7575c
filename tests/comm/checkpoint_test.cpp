// Checkpoints of a training over ranks.
#include <filesystem>
#include <fstream>

#include "checks.h"
#include "kaon/gluon/util/checkpoint.h"

namespace checkpoint_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;

namespace {

// One for all ranks of this run.
std::filesystem::path file_of_run() {
  const NDArray number = nd.full({1}, double(getpid()), {.dtype = DType::float64});
  comm::mpi().broadcast(number);
  return std::filesystem::temp_directory_path() /
         fmt::format("kaon_ranks_{}.params", int64_t(number.asscalar<double>()));
}

struct Training {
  explicit Training(const TrainerOptions& options)
      : net(mlp()), trainer(initialized(net).collect_params(), optimizer::Adam({.learning_rate = 0.01}), options) {}
  static nn::HybridSequential& initialized(nn::HybridSequential& net) {
    net.initialize(init::Xavier());
    return net;
  }
  void steps(int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const int64_t all = 8 * ranks();
      autograd::record([&] { return loss(net(part(numbers({all, 10}, i + 1))), part(labels(all, i))); }).backward();
      trainer.step(all);
    }
  }
  nn::HybridSequential net;
  Trainer trainer;
  const loss::SoftmaxCrossEntropyLoss loss{};
};

}  // namespace

TEST_CASE("comm checkpoint: training goes on from it as if it had not stopped, with and without owners") {
  const auto file = file_of_run();
  for (const bool shard_states : {false, true}) {
    const TrainerOptions options{.kvstore = "dist_sync", .shard_states = shard_states};
    Training whole(options);
    whole.steps(0, 3);
    save_checkpoint(file, whole.net, whole.trainer, {{"epoch", nd.full({1}, 3)}});
    CHECK(std::filesystem::exists(file));  // on every rank
    whole.steps(3, 6);

    Training resumed(options);
    CHECK(load_checkpoint(file, resumed.net, resumed.trainer)[0].second.asscalar<float>() == 3);
    resumed.steps(3, 6);
    check_same(resumed.net, whole.net, 0);

    // another number of ranks: one
    nn::HybridSequential alone = mlp();
    alone.initialize();
    Trainer trainer(alone.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
    load_checkpoint(file, alone, trainer);
    const loss::SoftmaxCrossEntropyLoss loss;
    for (int i = 3; i < 6; ++i) {
      const int64_t all = 8 * ranks();
      autograd::record([&] { return loss(alone(numbers({all, 10}, i + 1)), labels(all, i)); }).backward();
      trainer.step(all);
    }
    check_same(alone, whole.net, 2e-4);

    // of one process, which all ranks go on from
    comm::mpi().barrier().wait_to_read();
    if (rank() == 0) save_checkpoint(file, alone, trainer);
    comm::mpi().barrier().wait_to_read();
    Training spread(options);
    load_checkpoint(file, spread.net, spread.trainer);
    CHECK(spread.trainer.steps() == 6);
    spread.steps(6, 8);
    whole.steps(6, 8);
    check_same(spread.net, whole.net, 2e-4);
    comm::mpi().barrier().wait_to_read();
  }
  if (rank() == 0) std::filesystem::remove(file);
}

TEST_CASE("comm checkpoint: written while training goes on") {
  const auto file = file_of_run();
  Training whole({.kvstore = "dist_sync", .shard_states = true});
  whole.steps(0, 2);
  const CheckpointSave save = save_checkpoint_async(file, whole.net, whole.trainer);
  whole.steps(2, 4);
  save.wait();
  comm::mpi().barrier().wait_to_read();
  Training resumed({.kvstore = "dist_sync", .shard_states = true});
  load_checkpoint(file, resumed.net, resumed.trainer);
  resumed.steps(2, 4);
  check_same(resumed.net, whole.net, 0);
  comm::mpi().barrier().wait_to_read();
  if (rank() == 0) std::filesystem::remove(file);
}

TEST_CASE("comm checkpoint: where rank 0 cannot write, every rank throws") {
  Training t({.kvstore = "dist_sync"});
  t.steps(0, 1);
  CHECK_THROWS_AS(save_checkpoint("/nowhere/at/all/x.params", t.net, t.trainer), IoError);
  CHECK_THROWS_AS(t.trainer.save_states("/nowhere/at/all/x.states"), IoError);
  CHECK(comm::mpi().failure().empty());
}

TEST_CASE("comm checkpoint: each rank goes on with its own random numbers") {
  const auto file = file_of_run();
  Training t({.kvstore = "dist_sync"});
  random::seed(uint64_t(50 + rank()));
  nd.random_uniform({rank() + 1}).wait_to_read();
  save_checkpoint(file, t.net, t.trainer);
  const auto expected = nd.random_uniform({4}).asvector<float>();
  random::seed(1);
  load_checkpoint(file, t.net, t.trainer);
  CHECK(nd.random_uniform({4}).asvector<float>() == expected);
  comm::mpi().barrier().wait_to_read();
  if (rank() == 0) std::filesystem::remove(file);
}

}  // namespace checkpoint_test

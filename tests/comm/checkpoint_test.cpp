// Checkpoints of a training over ranks.
#include <algorithm>
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
  explicit Training(const TrainerOptions& options, Mode how = Mode::imperative)
      : net(mlp()),
        mode(how),
        trainer(initialized(net).collect_params(), optimizer::Adam({.learning_rate = 0.01}), options),
        training_step(net, loss, trainer, {.exact = true}) {
    if (mode == Mode::hybridized) net.hybridize({.exact = true});
  }
  static nn::HybridSequential& initialized(nn::HybridSequential& net) {
    net.initialize(init::Xavier());
    return net;
  }
  void steps(int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const int64_t all = 8 * ranks();
      const NDArray x = part(numbers({all, 10}, i + 1)), y = part(labels(all, i));
      if (mode == Mode::training_step) {
        training_step(x, y);
        continue;
      }
      autograd::record([&] { return loss(net(x), y); }).backward();
      trainer.step(all);
    }
  }
  nn::HybridSequential net;
  Mode mode;
  Trainer trainer;
  const loss::SoftmaxCrossEntropyLoss loss{};
  TrainingStep training_step;
};

// One weight, 0 at first, whose gradient is the data: 2bit of threshold 0.5 keeps back what is less.
struct OneWeight {
  explicit OneWeight(const TrainerOptions& options, bool has_values = true)
      : net(nn::Dense(1, {.use_bias = false, .in_units = has_values ? 1 : 0})),
        trainer(initialized(net).collect_params(), optimizer::SGD({.learning_rate = 1}), options) {}
  static nn::HybridSequential& initialized(nn::HybridSequential& net) {
    net.initialize(init::Zero());
    return net;
  }
  void step(float gradient) {
    autograd::record([&] { return net(nd.full({1, 1}, gradient)); }).backward();
    trainer.step(1);
  }
  float weight() const { return net.collect_params()[0].data().asscalar<float>(); }
  nn::HybridSequential net;
  Trainer trainer;
};

constexpr TrainerOptions two_bits{.kvstore = "dist_sync", .compression_params = {.type = "2bit", .threshold = 0.5}};

NDArray& residuals_in(NamedArrays& states) {
  const auto found =
      std::ranges::find_if(states, [](const auto& entry) { return entry.first.starts_with("residuals:"); });
  REQUIRE(found != states.end());
  return found->second;
}

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

TEST_CASE("comm checkpoint: what 2bit has not sent yet is sent after it, in all modes, with and without owners") {
  const auto file = file_of_run();
  for (const Mode mode : all_modes) {
    for (const bool shard_states : {false, true}) {
      CAPTURE(int(mode), shard_states);
      const TrainerOptions options{.kvstore = "dist_sync",
                                   .compression_params = {.type = "2bit", .threshold = 0.05},
                                   .shard_states = shard_states};
      Training whole(options, mode);
      whole.steps(0, 3);
      save_checkpoint(file, whole.net, whole.trainer);
      whole.steps(3, 6);
      Training resumed(options, mode);
      resumed.steps(0, 1);  // what it has kept back is not of the file
      load_checkpoint(file, resumed.net, resumed.trainer);
      resumed.steps(3, 6);
      check_same(resumed.net, whole.net, 0);
      comm::mpi().barrier().wait_to_read();
    }
  }
  OneWeight whole(two_bits), resumed(two_bits, false);
  whole.step(0.3f);
  CHECK(whole.weight() == 0);
  save_checkpoint(file, whole.net, whole.trainer);
  whole.step(0.3f);
  load_checkpoint(file, resumed.net, resumed.trainer);  // which gives the weight its shape
  save_checkpoint(file, resumed.net, resumed.trainer);  // without a step
  load_checkpoint(file, resumed.net, resumed.trainer);
  resumed.step(0.3f);
  for (const OneWeight* w : {&whole, &resumed}) CHECK(w->weight() == -0.5f * float(ranks()));
  comm::mpi().barrier().wait_to_read();
  if (rank() == 0) std::filesystem::remove(file);
}

TEST_CASE("comm checkpoint: what 2bit has not sent yet is shared out among another number of ranks") {
  OneWeight w(two_bits);
  w.step(rank() == 0 ? 0.25f : 0.125f);
  NamedArrays states = w.trainer.states();
  NDArray& residuals = residuals_in(states);
  std::vector<float> expected(size_t(ranks()), 0.125f);
  expected[0] = 0.25f;
  CHECK(residuals.shape() == Shape(ranks(), 1));
  CHECK(residuals.asvector<float>() == expected);

  residuals = nd.full({2 * ranks(), 1}, 0.3f);  // of twice as many ranks
  w.trainer.set_states(states, "states");
  w.step(0);
  CHECK(w.weight() == -0.5f * float(ranks()));
  states = w.trainer.states();
  for (const float left : residuals_in(states).asvector<float>()) CHECK(left == Approx(0.1f));

  OneWeight alone({});  // sends nothing
  alone.trainer.set_states(states, "states");
  CHECK(alone.trainer.steps() == 2);

  NamedArrays wrong = states;
  residuals_in(wrong) = nd.zeros({ranks(), 2});
  CHECK_THROWS_AS(w.trainer.set_states(wrong, "states"), ShapeError);
  residuals_in(wrong) = nd.zeros({ranks(), 1}, {.dtype = DType::float64});
  CHECK_THROWS_AS(w.trainer.set_states(wrong, "states"), TypeError);

  std::erase_if(states, [](const auto& entry) { return entry.first.starts_with("residuals:"); });  // an earlier version
  w.trainer.set_states(states, "states");
  const float before = w.weight();
  w.step(0.45f);
  CHECK(w.weight() == before);
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

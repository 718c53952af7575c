// Checkpoints: training that goes on from one gives the same bits.
#include "kaon/gluon/util/checkpoint.h"

#include <functional>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace checkpoint_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

// A net with random numbers, statistics and a schedule.
struct Run {
  nn::HybridSequential net{nn::Dense(6, {.activation = "tanh"}), nn::BatchNorm(), nn::Dropout(0.3), nn::Dense(2)};
  gluon::Trainer trainer;
  gluon::TrainingStep step;
  explicit Run(bool scaled)
      : trainer(net.collect_params(), optimizer::Adam({.lr_scheduler = lr_scheduler::FactorScheduler(
                                                           {.step = 2, .factor = 0.5, .base_lr = 0.1})})),
        step(net, gluon::loss::L2Loss(), trainer, {.static_alloc = true, .exact = true}) {
    net.initialize();
    if (scaled) amp::init_trainer(trainer, {.init_scale = 256, .scale_window = 2});
  }
  void train(int from, int to, bool in_step) {
    for (int i = from; i < to; ++i) {
      const NDArray x = nd.arange(12).reshape({4, 3}) / (i + 2), y = nd.ones({4, 2}) * i;
      if (in_step) {
        step(x, y);
      } else {
        const gluon::loss::L2Loss loss;
        autograd::record([&] {
          const NDArray l = loss(net(x), y);
          return trainer.scales_losses() ? amp::scale_loss(l, trainer) : l;
        }).backward();
        trainer.step(4);
      }
    }
  }
  std::vector<double> all() const {
    std::vector<double> numbers;
    for (const auto& p : net.collect_params()) {
      for (double v : values(p.data())) numbers.push_back(v);
    }
    return numbers;
  }
};

}  // namespace

TEST_CASE("checkpoint: training that goes on from one is bit for bit the training that never stopped", "[gluon]") {
  const ScratchFolder folder;
  for (bool scaled : {false, true}) {
    for (bool in_step : {false, true}) {
      random::seed(5);
      Run whole(scaled);
      whole.train(0, 3, in_step);
      gluon::save_checkpoint(folder / "c.params", whole.net, whole.trainer, {{"epoch", nd.array({7.0})}});
      whole.train(3, 7, in_step);

      random::seed(99);
      Run resumed(scaled);
      const NamedArrays more = gluon::load_checkpoint(folder / "c.params", resumed.net, resumed.trainer);
      REQUIRE(more.size() == 1);
      CHECK(more[0].first == "epoch");
      CHECK(more[0].second.asscalar<double>() == 7);
      CHECK(resumed.trainer.steps() == 3);
      resumed.train(3, 7, in_step);
      CHECK(resumed.all() == whole.all());
      if (scaled) {
        CHECK(values(resumed.trainer.loss_scale()) == values(whole.trainer.loss_scale()));
        CHECK(values(whole.trainer.loss_scale())[0] > 256);
      }
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "."), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("checkpoint: one that does not fit is refused, and nothing is changed", "[gluon]") {
  const ScratchFolder folder;
  random::seed(5);
  Run run(false), scaled(true);
  run.train(0, 1, true);
  scaled.train(0, 1, true);
  gluon::save_checkpoint(folder / "c.params", run.net, run.trainer);
  const std::vector<double> before = scaled.all();
  const ops::RandomKey state = random::get_state();
  CHECK_THROWS_WITH(gluon::load_checkpoint(folder / "c.params", scaled.net, scaled.trainer),
                    Contains("has no 'loss_scale'"));
  nn::Dense other(3, {.in_units = 2});
  gluon::Trainer trainer(other.collect_params(), optimizer::SGD());
  CHECK_THROWS_WITH(gluon::load_checkpoint(folder / "c.params", other, trainer), Contains("load_checkpoint"));
  run.net.save_parameters(folder / "p.params");
  CHECK_THROWS_WITH(gluon::load_checkpoint(folder / "p.params", run.net, run.trainer), Contains("is no checkpoint"));
  CHECK_THROWS_AS(gluon::load_checkpoint(folder / "none", run.net, run.trainer), IoError);
  CHECK_THROWS_AS(gluon::save_checkpoint(folder / "no" / "folder", run.net, run.trainer), IoError);
  CHECK_THROWS_WITH(
      gluon::save_checkpoint(folder / "d", run.net, run.trainer, {{"a", nd.ones({1})}, {"a", nd.ones({1})}}),
      Contains("two arrays are named 'a'"));
  CHECK(scaled.all() == before);
  CHECK(random::get_state().offset == state.offset);
}

TEST_CASE("checkpoint: the trainer's parameters are the net's, or named beside it", "[gluon]") {
  const ScratchFolder folder;
  const auto file = folder / "c.params";
  nn::HybridSequential net(nn::Dense(3, {.in_units = 2}), nn::Dense(1, {.in_units = 3}));
  nn::Dense other(3, {.in_units = 2});
  net.initialize(), other.initialize();
  gluon::Trainer of_net(net.collect_params(), optimizer::SGD()), of_other(other.collect_params(), optimizer::SGD());
  CHECK_THROWS_WITH(gluon::save_checkpoint(file, net, of_other), Contains("no parameter of the net"));
  CHECK_FALSE(std::filesystem::exists(file));
  gluon::save_checkpoint(file, net, of_net);
  CHECK_THROWS_WITH(gluon::load_checkpoint(file, net, of_other), Contains("no parameter of the net"));
  gluon::Trainer part(net.collect_params(".*weight"), optimizer::SGD());
  CHECK_NOTHROW(gluon::save_checkpoint(file, net, part));
  gluon::Parameter scale("scale", {1});
  scale.initialize(init::One());
  gluon::ParameterDict more = net.collect_params();
  more.add(scale);
  gluon::Trainer of_more(more, optimizer::SGD());
  CHECK_THROWS_WITH(gluon::save_checkpoint(file, net, of_more), Contains("changes scale"));
  gluon::save_checkpoint(file, net, of_more, {{"scale", scale.data()}});
  CHECK(gluon::load_checkpoint(file, net, of_more).at(0).first == "scale");
}

TEST_CASE("checkpoint: one that is saved while training goes on has the values of one step", "[gluon]") {
  const ScratchFolder folder;
  for (bool in_step : {false, true}) {
    random::seed(5);
    Run run(false);
    run.train(0, 3, in_step);
    std::vector<gluon::CheckpointSave> saves;
    for (int k = 3; k < 9; ++k) {
      gluon::save_checkpoint(folder / ("exact" + std::to_string(k)), run.net, run.trainer);
      saves.push_back(gluon::save_checkpoint_async(folder / ("beside" + std::to_string(k)), run.net, run.trainer));
      saves.push_back(gluon::save_checkpoint_async(folder / "last", run.net, run.trainer));
      run.train(k, k + 1, in_step);  // goes on at once
    }
    for (const auto& save : saves) save.wait();
    for (int k = 3; k < 9; ++k) {
      CHECK(bytes_of(folder / ("beside" + std::to_string(k))) == bytes_of(folder / ("exact" + std::to_string(k))));
    }
    CHECK(bytes_of(folder / "last") == bytes_of(folder / "exact8"));  // in the order of the calls
  }
}

namespace {

Task<bool> save_and_look(fs::path file, const Run& run) {
  const auto saving = gluon::save_checkpoint_async(file, run.net, run.trainer);
  co_await saving;
  co_return saving.is_done() && fs::exists(file);
}

}  // namespace

TEST_CASE("checkpoint: one that is being saved is awaited, and its failure is thrown there", "[gluon]") {
  const ScratchFolder folder;
  Run run(false);
  run.train(0, 1, true);
  CHECK(sync_wait(save_and_look(folder / "c", run)));
  CHECK_THROWS_AS(sync_wait(save_and_look(folder / "no" / "folder", run)), IoError);
  CHECK_THROWS_AS(gluon::CheckpointSave().wait(), StateError);
}

TEST_CASE("checkpoint: a changed byte is found by its checksum", "[gluon]") {
  const ScratchFolder folder;
  Run run(false);
  run.train(0, 2, true);
  gluon::save_checkpoint(folder / "c", run.net, run.trainer, {{"mine", nd.full({4}, 7)}});
  std::string bytes = bytes_of(folder / "c");
  const float sevens[] = {7, 7, 7, 7};
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(sevens), sizeof sevens));
  REQUIRE(at != std::string::npos);
  bytes[at + 5] = char(bytes[at + 5] ^ 1);
  std::ofstream(folder / "d", std::ios::binary) << bytes;
  const std::vector<double> before = run.all();
  CHECK_THROWS_WITH(gluon::load_checkpoint(folder / "d", run.net, run.trainer),
                    Contains("'program:mine' differs from its checksum: expected CRC-32"));
  CHECK(run.all() == before);
  // a file of before there were checksums
  NamedArrays old = nd_file::load(folder / "c");
  old.pop_back();
  nd_file::save(folder / "old", old);
  CHECK(gluon::load_checkpoint(folder / "old", run.net, run.trainer).size() == 1);
  old.pop_back();
  old.emplace_back("checksums", nd.ones({3}));
  nd_file::save(folder / "old", old);
  CHECK_THROWS_WITH(gluon::load_checkpoint(folder / "old", run.net, run.trainer), Contains("a checksum of each of"));
}

}  // namespace checkpoint_test

// A process that trains and saves is killed at random moments, and its successor goes on: the weights are in the end
// those of a training that was never stopped, bit for bit.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/checkpoint.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/child_process.h"
#include "kaon/tests/support/files.h"

namespace checkpoint_kill_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

namespace {

struct Training {
  nn::HybridSequential net{nn::Dense(16, {.activation = "tanh", .in_units = 3}), nn::Dropout(0.3),
                           nn::Dense(2, {.in_units = 16})};
  gluon::Trainer trainer{net.collect_params(), optimizer::Adam({.learning_rate = 0.01})};
  gluon::TrainingStep step{net, gluon::loss::L2Loss(), trainer, {.static_alloc = true, .exact = true}};
  int64_t taken = 0;

  Training() {
    random::seed(5);
    net.initialize(init::One());
  }
  void take_step() {
    const NDArray x = nd.arange(12).reshape({4, 3}) / double(taken % 5 + 2), y = nd.ones({4, 2}) * double(taken % 3);
    step(x, y);
    ++taken;
  }
  NamedArrays more() const { return {{"taken", nd.array({double(taken)}, {1}, {.dtype = DType::float64})}}; }
  void load(const fs::path& file) {
    taken = gluon::load_checkpoint(file, net, trainer).at(0).second.asscalar<int64_t>();
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const auto& p : net.collect_params()) {
      for (double v : values(p.data())) all.push_back(v);
    }
    return all;
  }
};

// Trains from the last checkpoint and saves each step, until the folder has a file "finish".
void run_child(const fs::path& folder) {
  Training training;
  if (fs::exists(folder / "c")) training.load(folder / "c");
  while (!fs::exists(folder / "finish")) {
    training.take_step();
    // each way in turn; of those that go on beside the training several are under way
    if (training.taken % 3 == 0) {
      gluon::save_checkpoint(folder / "c", training.net, training.trainer, training.more());
    } else {
      gluon::save_checkpoint_async(folder / "c", training.net, training.trainer, training.more());
    }
  }
  gluon::save_checkpoint(folder / "end", training.net, training.trainer, training.more());
}

void check_kills(int kills) {
  const ScratchFolder folder;
  const fs::path file = folder / "c";
  std::mt19937 random(11);
  int64_t reached = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start_child("checkpoint: the process that is killed", folder / ".");
    // on a slow machine too, one is killed with something to go on from
    for (int wait = 0; i == 0 && wait < 6000 && !fs::exists(file); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // some at their start, most in the midst of steps and saves
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 400'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    if (!fs::exists(file)) continue;
    Training look;
    look.load(file);
    REQUIRE(look.taken >= reached);
    reached = look.taken;
  }
  CHECK(reached > 0);
  CHECK(folder.count() <= size_t(2 + kills));  // a kill leaves at most one temporary name
  std::ofstream(folder / "finish") << "";
  const pid_t child = start_child("checkpoint: the process that is killed", folder / ".");
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  Training resumed;
  resumed.load(folder / "end");
  CHECK(resumed.taken >= reached);
  Training whole;  // after the load, which sets the random numbers too
  while (whole.taken < resumed.taken) whole.take_step();
  CHECK(whole.weights() == resumed.weights());
  WARN(kills << " kills, " << resumed.taken << " steps");
}

}  // namespace

TEST_CASE("checkpoint: the process that is killed", "[.checkpoint_child]") {
  if (const char* folder = child_folder()) run_child(folder);
}

TEST_CASE("checkpoint: training goes on after kills at any moment", "[gluon]") { check_kills(4); }
TEST_CASE("checkpoint: training goes on after fifty kills at any moment", "[gluon][slow]") { check_kills(50); }

}  // namespace checkpoint_kill_test

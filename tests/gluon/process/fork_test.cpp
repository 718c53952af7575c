// Forks at any moment of a training loop.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace fork_test {

// Sanitizers look for leaks where a process ends, and threads and forks mean something else to them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using namespace kaon;
using namespace kaon::test;

namespace {

nn::HybridSequential new_net() {
  nn::HybridSequential net(nn::Conv2D(4, {.kernel_size = 3, .padding = 1, .in_channels = 2}), nn::BatchNorm(),
                           nn::Dense(8, {.activation = "tanh"}), nn::Dense(2));
  net.initialize(init::Normal(0.3));
  net.hybridize();
  return net;
}

// Traces a net of its own, makes its plans and trains it.
std::vector<double> train_new_net(int steps) {
  random::RandomSubstream own({.seed = 3, .offset = 0});
  auto net = new_net();
  gluon::loss::L2Loss loss;
  const NDArray x = numbers({4, 2, 6, 6}, 1), label = numbers({4, 2}, 2);
  net(x);  // completes the shapes
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam());
  gluon::TrainingStep step(net, loss, trainer);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(step(x, label).mean().asscalar<double>());
  autograd::record([&] { return loss(net(x), label); }).backward();
  trainer.step(4);
  losses.push_back(net(x).sum().asscalar<double>());
  return losses;
}

// Exit code: 0, or what was wrong.
int play_child(const NDArray& finished, const std::vector<float>& content, const std::vector<double>& expected) {
  if (finished.asvector<float>() != content) return 1;
  if (to_string(finished).empty()) return 2;
  finished.wait_to_read();
  const ScratchFolder folder;
  nd_file::save(folder / "x.nd", {{"x", finished}});
  if (nd_file::load(folder / "x.nd").front().second.asvector<float>() != content) return 7;
  auto read = [](NDArray a) -> Task<std::vector<float>> {
    std::vector<float> all = co_await a.host<float>();
    co_return all;
  };
  if (sync_wait(read(finished)) != content) return 8;
  try {
    finished + 1;
    return 3;
  } catch (const StateError&) {
  }
  const NDArray mine = nd.array(content, finished.shape());
  if ((mine + 1).sum().asscalar<float>() != mine.sum().asscalar<float>() + float(mine.size())) return 4;
  const std::vector<double> losses = train_new_net(2);
  if (losses.size() != expected.size()) return 5;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (std::abs(losses[i] - expected[i]) > 1e-4 * (1 + std::abs(expected[i]))) return 6;
  }
  return 0;
}

void check_forks(int forks) {
  Watchdog watchdog(std::chrono::seconds(60 + 2 * forks));
  const std::vector<double> expected = train_new_net(2);
  const NDArray finished = nd.arange(12) * 2;
  const std::vector<float> content = finished.asvector<float>();
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  auto train = [&] {
    while (!over) wrong += train_new_net(2) != expected;
  };
  // one net that is trained all the time, its arrays in use at every moment
  auto train_one = [&] {
    auto net = new_net();
    gluon::loss::L2Loss loss;
    const NDArray x = numbers({8, 2, 6, 6}, 1), label = numbers({8, 2}, 2);
    net(x);
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
    gluon::TrainingStep step(net, loss, trainer);
    for (int64_t n = 0; !over; ++n) {
      step(x, label);
      net(nd.ones({1 + n % 12, 2, 6, 6}));
      if (n % 50 == 0) nd.waitall();
    }
    nd.waitall();
  };
  std::thread tracing(train), training(train_one);
  std::mt19937 random(7);
  std::vector<int> bad_ends;
  for (int i = 0; i < forks; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      int code = 9;
      try {
        code = play_child(finished, content, expected);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child %d: %s\n", i, e.what());
      }
      std::_Exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) bad_ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
  }
  over = true;
  tracing.join();
  training.join();
  CHECK(bad_ends == std::vector<int>{});
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("fork: a child of a training loop reads finished arrays and trains nets of its own", "[gluon]") {
  check_forks(10);
}
TEST_CASE("fork: 300 children of a training loop", "[gluon][slow]") { check_forks(300); }

TEST_CASE("fork: what was not finished says so in the child, and does not wait", "[gluon][async]") {
  Watchdog watchdog;
  std::atomic<bool> go_on{false};
  NDArray x = nd.ones({3});
  x.wait_to_read();
  x.engine().push({update(x.var())}, [&](RunContext&) {
    while (!go_on) std::this_thread::yield();
  });
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    int refused = 0;
    for (int way = 0; way < 3; ++way) {
      try {
        if (way == 0) x.asvector<float>();
        if (way == 1) x.wait_to_read();
        if (way == 2) x += 1;
      } catch (const StateError&) {
        ++refused;
      }
    }
    std::_Exit(refused == 3 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  go_on = true;
  CHECK(status == 0);
  CHECK(x.asvector<float>() == std::vector<float>(3, 1.0f));
}

#endif

}  // namespace fork_test

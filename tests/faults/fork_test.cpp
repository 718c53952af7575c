// Forks at each moment of a training loop.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <climits>
#include <cstdio>
#include <string>
#include <thread>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/support/files.h"
#include "loader_training.h"
#include "moments.h"

namespace fork_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// One step of a net of its own.
std::vector<float> train_briefly() {
  nn::HybridSequential net = new_net();
  gluon::loss::SoftmaxCELoss loss;
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  const NDArray x = numbers({2, 2, 4, 4}), y = nd.arange(2);
  autograd::record([&] { return loss(net(x), y); }).backward();
  trainer.step(2);
  return net(x).asvector<float>();
}

struct Known {
  NDArray finished{};
  std::vector<float> content{};  // of `finished`
  std::vector<Values> states{};  // all that the net goes through
  std::vector<float> brief{};    // of train_briefly()
};

// What a child does, on a thread of its own: the one that forked may be inside a call of the net. Exit code 0, or what
// was wrong.
int play_child(const Known& known) {
  if (known.finished.asvector<float>() != known.content) return 1;
  const ScratchFolder folder;
  nd_file::save(folder / "x.nd", {{"x", known.finished}});
  if (nd_file::load(folder / "x.nd").front().second.asvector<float>() != known.content) return 2;
  try {
    known.finished + 1;
    return 3;
  } catch (const StateError&) {
  }
  if (const nn::HybridSequential* net = g_net) {
    try {
      net->save_parameters(folder / "net.params");
      nn::HybridSequential copy = new_net();
      copy.load_parameters(folder / "net.params");
      const Values saved = values_of(copy);
      for (size_t i = 0; i < saved.size(); ++i) {
        bool is_known = false;
        for (const Values& state : known.states) is_known |= state[i] == saved[i];
        if (!is_known) return 4;
      }
    } catch (const StateError&) {  // one is being written
    }
  }
  if (train_briefly() != known.brief) return 5;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  if (nd.ones({100}).sum().asscalar<float>() != 100) return 6;
  return 0;
}

[[noreturn]] void be_child(const Known& known) {
  forget_moments();
  alarm(30);
  int code = 9;
  std::thread([&] {
    try {
      code = play_child(known);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child: %s\n", e.what());
    }
  }).join();
  std::_Exit(code);
}

// Forks at every `stride`th moment, beginning with `first`.
class Forks : public AtMoments {
 public:
  Forks(const Known& known, long first, long stride) : known_(known), first_(first), stride_(stride) {}
  long forks() const { return forks_; }
  long moments() const { return moments_; }
  const std::vector<std::string>& bad_ends() const { return bad_ends_; }

 protected:
  ~Forks() = default;
  virtual void child_is_there() noexcept {}
  long next_moment() noexcept { return ++moments_; }
  bool is_chosen(long number) const noexcept { return number >= first_ && (number - first_) % stride_ == 0; }
  void fork_at(long number) {
    const pid_t child = fork();
    if (child == 0) be_child(known_);
    child_is_there();
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    ++forks_;
    if (child < 0 || status != 0) {
      bad_ends_.push_back("moment " + std::to_string(number) +
                          (WIFEXITED(status) ? ": exit code " + std::to_string(WEXITSTATUS(status))
                                             : ": signal " + std::to_string(WTERMSIG(status))));
    }
  }

 private:
  const Known& known_;
  const long first_, stride_;
  std::atomic<long> moments_{0};
  long forks_ = 0;
  std::vector<std::string> bad_ends_;
};

// The training thread forks itself, wherever it holds no lock: as its program might between two lines.
class OwnForks final : public Forks {
 public:
  using Forks::Forks;
  void act() noexcept override {
    if (std::this_thread::get_id() != trains_ || locks_held() > 0) return;
    if (const long n = next_moment(); is_chosen(n)) fork_at(n);
  }
  void run() {}
  void stop() {}

 private:
  const std::thread::id trains_ = std::this_thread::get_id();
};

// Another thread forks while the one whose moment it is stands still, be it the training thread, a worker of the engine
// or one of the loader. A fork that waits for a lock of that thread lets it go on after a while.
class ForksBeside final : public Forks {
 public:
  using Forks::Forks;
  void act() noexcept override {
    const long n = next_moment();
    if (!is_chosen(n)) return;
    auto until = Clock::now() + 20ms;
    for (long state = nothing; !asked_.compare_exchange_weak(state, n); state = nothing) {
      if (state == child_runs) until = Clock::now() + 20ms;  // nobody waits for a lock
      if (Clock::now() > until) return;
      std::this_thread::sleep_for(20us);
    }
    while (asked_ == n && Clock::now() < until) std::this_thread::sleep_for(20us);
  }
  void run() {
    leave_out_this_thread();
    while (!is_over_) {
      if (const long n = asked_; n != nothing) {
        fork_at(n);
        asked_ = nothing;
      } else {
        std::this_thread::sleep_for(20us);
      }
    }
  }
  void stop() { is_over_ = true; }

 private:
  void child_is_there() noexcept override { asked_ = child_runs; }

  static constexpr long nothing = 0, child_runs = -1;
  std::atomic<long> asked_{nothing};  // or the number of a moment
  std::atomic<bool> is_over_{false};
};

// Of one training with these forks: its number of moments.
template <class Kind>
long train_with(const Known& known, long first, long stride) {
  Kind forks(known, first, stride);
  std::thread forking([&] { forks.run(); });
  forks.begin();
  const std::vector<Values> states = train_from_loader(false);
  forks.end();
  forks.stop();
  forking.join();
  CHECK(states.back() == known.states.back());
  CHECK(forks.forks() >= (forks.moments() - first) / stride / 2);  // some pass while a fork waits for a lock
  CHECK(forks.bad_ends() == std::vector<std::string>{});
  return forks.moments();
}

// At `most` moments, spread over all; 0: at every one, in several trainings.
template <class Kind>
void check_forks(long most) {
  Watchdog watchdog(std::chrono::seconds(most ? 120 : 3600));
  Known known{.finished = nd.arange(12) * 2};
  known.content = known.finished.template asvector<float>();
  known.states = train_from_loader(true);
  known.brief = train_briefly();
  const long total = train_with<Kind>(known, LONG_MAX, 1);
  REQUIRE(total > 100);
  if (most) {
    train_with<Kind>(known, 1, std::max<long>(1, total / most));
  } else {
    constexpr long stride = 16;
    for (long first = 1; first <= stride; ++first) train_with<Kind>(known, first, stride);
  }
}

}  // namespace

TEST_CASE("faults: a training thread forks at some of its moments", "[faults]") { check_forks<OwnForks>(40); }
TEST_CASE("faults: a process is forked at some moments of its training threads", "[faults]") {
  check_forks<ForksBeside>(40);
}
TEST_CASE("faults: a training thread forks at each of its moments", "[faults][slow]") { check_forks<OwnForks>(0); }
TEST_CASE("faults: a process is forked at each moment of its training threads", "[faults][slow]") {
  check_forks<ForksBeside>(0);
}

}  // namespace fork_test

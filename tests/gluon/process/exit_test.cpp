// Leaving the process while nets have calls pending: by exit() in any thread, by main's return, by an exception that
// nobody catches, on the main thread or another. Each runs as a process of its own: this very program, asked by the
// environment to play the child's part.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace exit_test {

// Sanitizers look for leaks where a process ends, and threads and forks mean something else to them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using namespace kaon;
using namespace kaon::test;

namespace {

constexpr const char* part_variable = "KAON_NET_EXIT_TEST_PART";

nn::HybridSequential& static_net() {
  static nn::HybridSequential net(nn::Conv2D(4, {.kernel_size = 3, .padding = 1, .in_channels = 2}), nn::BatchNorm(),
                                  nn::Dense(16, {.activation = "relu", .in_units = 256}),
                                  nn::Dense(4, {.in_units = 16}));
  return net;
}

// Calls of a net, products and convolutions, pending when it returns; the first of each make oneDNN's primitives.
void leave_pending(bool trains) {
  nn::HybridSequential& net = static_net();
  net.initialize(init::Normal(0.5));
  net.hybridize();
  static NDArray a = nd.ones({100, 100});
  const NDArray x = nd.ones({4, 2, 8, 8});
  static gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
  static gluon::loss::L2Loss loss;
  static gluon::TrainingStep step(net, loss, trainer);
  const NDArray w = nd.ones({3, 2, 3, 3});
  for (int i = 0; i < 30; ++i) {
    if (trains) step(x, nd.zeros({4, 4}));
    else net(x);
    a = nd.dot(a, nd.ones({100, 100})) * 0.01;
    nd.Convolution(x, w, {.kernel = {3, 3}, .num_filter = 3, .no_bias = true});
  }
}

void exit_in_thread(int code) {
  std::thread([code] { std::exit(code); }).join();
}

void fail() { throw std::runtime_error("nobody catches this"); }

void play(const std::string& part) {
  if (part == "return") return leave_pending(false);
  if (part == "return from a training loop") return leave_pending(true);
  if (part == "exit") {
    leave_pending(false);
    std::exit(5);
  }
  if (part == "exit in a thread") {
    leave_pending(false);
    exit_in_thread(6);
  }
  if (part == "exit in a thread of a training loop") {
    leave_pending(true);
    exit_in_thread(6);
  }
  if (part == "exit in a thread that pushed") {
    std::thread([] {
      leave_pending(false);
      std::exit(7);
    }).join();
  }
  if (part == "work of a thread") {  // main itself has never asked for the engine
    std::thread([] { leave_pending(false); }).join();
    return;
  }
  if (part == "exit in a thread, engine of main") {
    Engine engine({.threads = 2});
    EngineScope scope(engine);
    NDArray a = nd.ones({100, 100});
    for (int i = 0; i < 30; ++i) a = nd.dot(a, nd.ones({100, 100})) * 0.01;
    exit_in_thread(8);
  }
  if (part == "exit while others push") {
    std::thread([] {
      for (;;) nd.ones({10}) + 1;
    }).detach();
    leave_pending(false);
    exit_in_thread(9);
  }
  if (part == "uncaught") {
    leave_pending(true);
    std::signal(SIGABRT, SIG_DFL);  // not the test framework's, which would report
    std::thread(fail).join();
  }
  if (part == "exception out of main") {
    leave_pending(true);
    std::signal(SIGABRT, SIG_DFL);
    // the test framework would catch it: so it ends where it may not leave a function, as it may not leave main()
    []() noexcept { fail(); }();
  }
  std::_Exit(99);
}

bool is_abort(std::string_view part) { return part == "uncaught" || part == "exception out of main"; }

// Exit code of this program playing `part`; 1000 + signal when it was killed, -1 when it took too long.
int run_child(const char* part) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(part_variable, part, 1);
    if (is_abort(part)) fclose(stderr);  // of the C++ runtime's message
    execl("/proc/self/exe", "kaon_gluon_tests", "exit: net child", "-o", "/dev/null", static_cast<char*>(nullptr));
    _exit(98);
  }
  const auto until = Clock::now() + 30s;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > until) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(1ms);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

struct Part {
  const char* name;
  int code;
};
// The ways in which most programs end early.
constexpr Part common_ends[] = {
    {"exit", 5}, {"exit in a thread of a training loop", 6}, {"exception out of main", 1000 + SIGABRT}};
constexpr Part ends_of_main[] = {{"return", 0}, {"return from a training loop", 0}, {"work of a thread", 0}};
constexpr Part ends_of_threads[] = {{"exit in a thread", 6},
                                    {"exit in a thread that pushed", 7},
                                    {"exit in a thread, engine of main", 8},
                                    {"uncaught", 1000 + SIGABRT}};

void check_exits(std::span<const Part> parts, int repeats) {
  for (int i = 0; i < repeats; ++i) {
    for (const Part& part : parts) {
      INFO("child: " << part.name << ", round " << i);
      REQUIRE(run_child(part.name) == part.code);
    }
  }
}

}  // namespace

// Does nothing unless a case below has started this program.
TEST_CASE("exit: net child", "[gluon]") {
  if (const char* part = std::getenv(part_variable)) play(part);
}

TEST_CASE("exit: a process with calls of nets pending ends with its own code, from any thread", "[gluon]") {
  check_exits(common_ends, 30);
  check_exits(ends_of_main, 5);
  check_exits(ends_of_threads, 5);
}

TEST_CASE("exit: a thread that goes on pushing does not keep the process", "[gluon]") {
  REQUIRE(run_child("exit while others push") == 9);
}

TEST_CASE("exit: 1,000 common ends of each kind with calls of nets pending", "[gluon][slow]") {
  check_exits(common_ends, 1000);
}
TEST_CASE("exit: 1,000 ends of each kind of main with calls of nets pending", "[gluon][slow]") {
  check_exits(ends_of_main, 1000);
}
TEST_CASE("exit: 1,000 ends of each kind of thread with calls of nets pending", "[gluon][slow]") {
  check_exits(ends_of_threads, 1000);
}

#endif

}  // namespace exit_test

// What there is once in a process: made before main, and free in the child of a fork.
#include "kaon/engine/base/process_wide.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "kaon/tests/engine/support.h"

namespace process_wide_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

constinit bool g_was_made = false;

struct Early : WithMutex {
  Early() { g_was_made = true; }
};
Early& early() { return ProcessWide<Early>::get(); }

// Two numbers that differ only under the lock.
struct Pair : WithMutex {
  long a = 0, b = 0;
};
Pair& pair_of_process() { return ProcessWide<Pair>::get(); }

}  // namespace

TEST_CASE("users row 17: what the process shares is made before main", "[engine]") {
  REQUIRE(g_was_made);  // and not by this
  CHECK(&early() == &early());
}

TEST_CASE("users row 17: a child finds what the process shares whole and free", "[engine]") {
  if (sanitized) return;  // as for the other forks
  std::atomic<bool> end{false};
  std::thread busy([&] {
    while (!end) {
      std::lock_guard lock(pair_of_process());
      ++pair_of_process().a;
      for (int i = 0; i < 100; ++i) asm volatile("");
      ++pair_of_process().b;
    }
  });
  int bad_ends = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      std::lock_guard lock(pair_of_process());
      std::_Exit(pair_of_process().a == pair_of_process().b ? 0 : 1);
    }
    int status = 0;
    bad_ends += waitpid(child, &status, 0) != child || status != 0;
  }
  end = true;
  busy.join();
  CHECK(bad_ends == 0);
}

}  // namespace process_wide_test

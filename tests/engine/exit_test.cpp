// Leaving the process: programs that end in the middle of their work. Each runs as a process of its own: this very
// program, asked by the environment to play the child's part.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "kaon/engine/storage.h"
#include "kaon/engine/task.h"
#include "support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

constexpr const char* part_variable = "KAON_EXIT_TEST_PART";

// Alive until static destruction.
std::vector<IntrusivePtr<Chunk>> g_chunks;
Var g_var;
std::atomic<int> g_runs{0};

struct CountsAtExit {
  // Constructed before the engine, so destroyed after the engine has finished its operations.
  ~CountsAtExit() {
    if (expected >= 0 && g_runs != expected) std::_Exit(90);
  }
  int expected = -1;
} g_check;

void push_many(int n) {
  Engine& engine = Engine::process_default();
  for (int i = 0; i < n; ++i) {
    IntrusivePtr<Chunk> chunk(new Chunk(1000, cpu(), engine));
    engine.push({update(g_var), write(chunk->var)}, [chunk](RunContext&) {
      std::memset(chunk->ensure(), 1, chunk->bytes);
      ++g_runs;
    });
    if (i % 10 == 0) g_chunks.push_back(chunk);
  }
}

Task<void> never_ends() {
  while (true) co_await sleep_for(1ms);
}

void play(const std::string& part) {
  if (part == "unused") return;
  if (part == "pending") {
    push_many(1000);
    g_check.expected = 1000;
    return;  // main returns
  }
  if (part == "exit") {
    push_many(1000);
    g_check.expected = 1000;
    std::exit(7);
  }
  if (part == "exit inside an operation") {
    // static objects of this program die on a worker: nothing of theirs is in use meanwhile
    for (int i = 0; i < 1000; ++i) {
      Engine::process_default().push({update(g_var)}, [i](RunContext&) {
        if (i == 500) std::exit(8);
      });
    }
    std::this_thread::sleep_for(60s);
  }
  if (part == "failed") {
    push_many(10);
    Engine::process_default().push({write(g_var)}, [](RunContext&) { throw ValueError("[op] nobody looks"); });
    push_many(10);
    return;
  }
  if (part == "coroutine") {
    spawn(never_ends(), Engine::process_default().io_executor());
    push_many(100);
    g_check.expected = 100;
    return;
  }
  if (part == "thread") {
    std::thread([] {
      for (;;) {
        Engine::process_default().push({}, [](RunContext&) {});
        std::this_thread::sleep_for(100us);
      }
    }).detach();
    push_many(100);
    std::this_thread::sleep_for(2ms);
    return;
  }
  if (part == "thread_local") {
    static thread_local IntrusivePtr<Chunk> mine;
    mine = IntrusivePtr<Chunk>(new Chunk(100, cpu(), Engine::process_default()));
    Engine::process_default().push({write(mine->var)}, [c = mine](RunContext&) { c->ensure(); });
    std::thread([] {
      static thread_local IntrusivePtr<Chunk> other;
      other = IntrusivePtr<Chunk>(new Chunk(100, cpu(), Engine::process_default()));
      Engine::process_default().push({write(other->var)}, [c = other](RunContext&) { c->ensure(); });
    }).join();
    return;
  }
  std::_Exit(99);
}

// Exit code of this program playing `part`; 1000 + signal when it was killed, -1 when it took too long.
int run_child(const char* part) {
  pid_t child = fork();
  if (child == 0) {
    setenv(part_variable, part, 1);
    execl("/proc/self/exe", "kaon_engine_tests", "exit: child", "-o", "/dev/null", static_cast<char*>(nullptr));
    _exit(98);
  }
  auto until = Clock::now() + (sanitized ? 40s : 10s);
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

void check_exit(const char* part, int code) {
  INFO("child: " << part);
  for (int i = 0; i < rounds(10); ++i) REQUIRE(run_child(part) == code);
}

}  // namespace

// Does nothing unless a case below has started this program.
TEST_CASE("exit: child", "[engine]") {
  if (const char* part = std::getenv(part_variable)) play(part);
}

TEST_CASE("exit: a process ends with its own code, whatever is pending", "[engine]") {
  check_exit("unused", 0);
  check_exit("pending", 0);
  check_exit("exit", 7);
  check_exit("failed", 0);
  check_exit("thread_local", 0);
}

TEST_CASE("exit: a process ends while coroutines sleep and threads push", "[engine]") {
  check_exit("coroutine", 0);
  check_exit("thread", 0);
}

TEST_CASE("exit: exit() inside an operation", "[engine]") { check_exit("exit inside an operation", 8); }

TEST_CASE("exit: a busy process forks", "[engine]") {
  // The sanitizers' own allocator may be locked in the child, and ThreadSanitizer allows no new threads there.
  if (sanitized) return;
  Watchdog watchdog(60s);
  Engine engine({.threads = 2});
  Var busy, quiet;
  std::atomic<bool> end{false};
  std::atomic<long> pushed{0};
  std::atomic<long> runs{0};
  std::thread pusher([&] {
    while (!end) {
      engine.push({update(busy)}, [&](RunContext& run) {
        run.workspace(3000);
        ++runs;
      });
      ++pushed;
    }
  });
  int bad_ends = 0;
  for (int i = 0; i < 100; ++i) {
    Engine::process_default().push({write(quiet)}, [](RunContext&) {});
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      if (i % 3 == 0) std::_Exit(0);
      try {  // the parent's engine says what is wrong
        engine.push({}, [](RunContext&) {});
        std::_Exit(1);
      } catch (const StateError&) {
      }
      Var mine;  // the default engine works
      int value = 0;
      Engine& fresh = Engine::process_default();
      for (int k = 0; k < 100; ++k) {
        fresh.push({update(mine)}, [&](RunContext& run) {
          run.workspace(3000);
          ++value;
        });
      }
      fresh.wait(mine);
      if (value != 100) std::_Exit(2);
      if (i % 3 == 1) std::_Exit(0);
      { Engine own({.threads = 1}); own.push({}, [](RunContext&) {}); }
      std::_Exit(0);
    }
    int status = 0;
    bad_ends += waitpid(child, &status, 0) != child || status != 0;
  }
  end = true;
  pusher.join();
  engine.wait_all();
  Engine::process_default().wait_all();
  CHECK(bad_ends == 0);
  CHECK(runs == pushed);
}

TEST_CASE("exit: no signal handler is installed", "[engine]") {
  struct sigaction before[32], after[32];
  std::memset(before, 0, sizeof before);
  std::memset(after, 0, sizeof after);
  for (int s = 1; s < 32; ++s) sigaction(s, nullptr, &before[s]);
  {
    Engine engine({.threads = 2});
    for (int i = 0; i < 10; ++i) engine.push({}, [](RunContext&) {});
    engine.wait_all();
  }
  for (int s = 1; s < 32; ++s) {
    sigaction(s, nullptr, &after[s]);
    CHECK(before[s].sa_handler == after[s].sa_handler);
  }
}

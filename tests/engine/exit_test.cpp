// Leaving the process: programs that end in the middle of their work. Each runs as a process of its own: this very
// program, asked by the environment to play the child's part.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/task.h"
#include "support.h"

namespace exit_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

constexpr const char* part_variable = "KAON_EXIT_TEST_PART";

// Alive until static destruction.
std::vector<IntrusivePtr<Buffer>> g_chunks;
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
    IntrusivePtr<Buffer> buffer(new Buffer(1000, cpu(), engine));
    engine.push({update(g_var), write(buffer->var)}, [buffer](RunContext&) {
      std::memset(buffer->ensure(), 1, buffer->bytes);
      ++g_runs;
    });
    if (i % 10 == 0) g_chunks.push_back(buffer);
  }
}

// Opens a library with an engine of its own, uses it and closes it, with operations pending.
void use_plugin(int operations, bool in_thread) {
  void* library = dlopen(KAON_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!library) std::_Exit(93);
  auto use_engine = reinterpret_cast<int (*)(int)>(dlsym(library, "use_engine"));
  auto use = [&] {
    if (!use_engine || use_engine(operations) < operations) std::_Exit(94);
  };
  if (in_thread) std::thread(use).join();
  else use();
  dlclose(library);
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
  if (part == "coroutine operations") {
    Engine& engine = Engine::process_default();
    for (int i = 0; i < 100; ++i) {
      push_task(engine, {read(g_var)}, []() -> Task<void> {
        co_await sleep_for(20ms);
        ++g_runs;
      });
    }
    push_many(10);
    g_check.expected = 110;
    return;
  }
  if (part == "default options") {
    Engine::set_default_options({.threads = 3, .schedule = Schedule::random(5)});
    Engine& engine = Engine::current();
    const EngineOptions& made = engine.options();
    if (made.threads != 3 || made.schedule.kind != Schedule::Kind::random || made.schedule.seed != 5) std::_Exit(91);
    try {
      Engine::set_default_options({});
      std::_Exit(92);
    } catch (const StateError&) {
    }
    push_many(100);
    g_check.expected = 100;  // without workers too, what is pending is finished
    return;
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
    static thread_local IntrusivePtr<Buffer> mine;
    mine = IntrusivePtr<Buffer>(new Buffer(100, cpu(), Engine::process_default()));
    Engine::process_default().push({write(mine->var)}, [c = mine](RunContext&) { c->ensure(); });
    std::thread([] {
      static thread_local IntrusivePtr<Buffer> other;
      other = IntrusivePtr<Buffer>(new Buffer(100, cpu(), Engine::process_default()));
      Engine::process_default().push({write(other->var)}, [c = other](RunContext&) { c->ensure(); });
    }).join();
    return;
  }
  if (part == "plugin") {
    use_plugin(100, false);
    use_plugin(100, false);
    use_plugin(100, true);
    push_many(100);  // this program's own engine
    g_check.expected = 100;
    return;
  }
  if (part == "plugin in a thread") {  // which takes along what is its own; the engine's threads have done nothing
    use_plugin(0, true);
    if (!dlopen(KAON_PLUGIN, RTLD_NOW | RTLD_NOLOAD)) std::_Exit(95);  // their code must stay
    std::exit(6);
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

void check_exit(const char* part, int code, int repeats = 10) {
  INFO("child: " << part);
  for (int i = 0; i < rounds(repeats); ++i) REQUIRE(run_child(part) == code);
}

}  // namespace

// Does nothing unless a case below has started this program.
TEST_CASE("exit: child", "[engine]") {
  if (const char* part = std::getenv(part_variable)) play(part);
}

TEST_CASE("users row 16: a process ends with its own code, whatever is pending", "[engine]") {
  check_exit("unused", 0);
  check_exit("pending", 0);
  check_exit("exit", 7);
  check_exit("failed", 0);
  check_exit("thread_local", 0);
}

TEST_CASE("users row 16: a process ends while coroutines sleep and threads push", "[engine]") {
  check_exit("coroutine", 0);
  check_exit("thread", 0);
}

TEST_CASE("users row 16: a process ends while operations' coroutines wait", "[engine]") {
  check_exit("coroutine operations", 0);
}

TEST_CASE("users row 16: a library with an engine is opened, used and closed", "[engine]") {
  check_exit("plugin", 0);
  check_exit("plugin in a thread", 6);
}

TEST_CASE("exit: options of the default engine count until it is made", "[engine]") {
  check_exit("default options", 0);
}

TEST_CASE("users row 16: 200 ends of each kind", "[engine][slow]") {
  for (const char* part :
       {"pending", "failed", "thread_local", "coroutine", "thread", "coroutine operations", "plugin"}) {
    check_exit(part, 0, 200);
  }
  check_exit("plugin in a thread", 6, 200);
  check_exit("exit", 7, 200);
  check_exit("exit inside an operation", 8, 200);
}

TEST_CASE("users row 16: exit() inside an operation", "[engine]") { check_exit("exit inside an operation", 8); }

namespace {
void check_forks(int forks) {
  // The sanitizers' own allocator may be locked in the child, and ThreadSanitizer allows no new threads there.
  if (sanitized) return;
  Watchdog watchdog(120s);
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
  for (int i = 0; i < forks; ++i) {
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
      {
        Engine own({.threads = 1});
        own.push({}, [](RunContext&) {});
      }
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
}  // namespace

TEST_CASE("users row 17: a busy process forks", "[engine]") { check_forks(25); }
TEST_CASE("users row 17: a busy process forks 200 times", "[engine][slow]") { check_forks(200); }

TEST_CASE("users row 18: no signal handler is installed", "[engine]") {
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

namespace {
// Several engines at a time, made and ended by several threads, each with work of its own.
void check_instances(int rounds_each) {
  Watchdog watchdog(120s);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds_each; ++i) {
        Var v;
        int value = 0;
        {
          Engine first({.threads = (t + i) % 3});
          Engine second({.threads = 1});
          EngineScope scope(second);
          for (int k = 0; k < 50; ++k) first.push({update(v)}, [&value](RunContext&) { ++value; });
          Var other;
          int seen = 0;
          second.push({write(other)}, [&seen](RunContext&) { seen = 1; });
          second.wait(other);
          wrong += seen != 1;
        }
        wrong += value != 50;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("users row 19: engines come and go side by side", "[engine]") { check_instances(rounds(30)); }
TEST_CASE("users row 19: engines come and go side by side, 200 times", "[engine][slow]") {
  check_instances(rounds(200));
}

}  // namespace exit_test

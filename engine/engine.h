// Engine: runs operations in the order that their accesses demand, asynchronously.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "kaon/engine/executor.h"
#include "kaon/engine/op_node.h"
#include "kaon/engine/thread_context.h"

namespace kaon {

class Profiler;
class Storage;

struct EngineOptions {
  int threads = -1;         // -1: as many as cores; 0: serial, each op runs inside push (the debugging engine)
  int io_threads = 2;       // for loaders, files and timers
  int max_in_flight = 2048;  // pushed and not finished; at the limit a plain producer helps to execute
  std::chrono::microseconds spin{30};  // how long an idle worker looks for work before it parks
};

struct EngineStats {
  uint64_t ops = 0;        // pushed so far; a hybridized forward counts as one
  uint64_t completed = 0;
  uint64_t failed = 0;     // of these, ops that threw (inherited failures not counted)
  int threads = 0;
};

// One access of an operation on a var.
struct Access {
  Var& var;
  AccessMode mode;
};
inline Access read(Var& v) { return {v, AccessMode::read}; }
inline Access write(Var& v) { return {v, AccessMode::write}; }    // overwrites all of it
inline Access update(Var& v) { return {v, AccessMode::update}; }  // in place

struct PushOptions {
  OpLabel label = {};
  Priority priority = Priority::normal;
  bool transactional = false;  // when an input has failed, leave what is updated (not what is overwritten) as it was
};

class IdleAwaiter;

// How it works. push() puts the operation into the queues of its vars; when all accesses are granted it enters the
// ready queue. At most `threads` threads execute or look for work at a time: workers, and threads that wait. A worker
// runs one operation, then the first successor that became ready, and so on (no queue in between); the rest goes to
// the ready queue. Workers come from an Asio thread pool and stay until they have found nothing for `spin`; Asio is
// paid once per idle-to-busy edge.
//
// A failing operation poisons what it writes; operations that read it do not run and pass the failure on; every wait
// on such an array throws. A full overwrite heals.
//
// A forked child has none of the engine's threads: there the process default starts anew, and an engine of the parent
// throws StateError.
//
// Thread safety: all functions, from any thread. Blocking: wait, wait_all; push only at the in-flight limit and only
// outside of Tasks and operations.
class Engine {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();  // finishes what was pushed
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The innermost EngineScope's engine, else the process default (made on first use, finished at exit).
  static Engine& current() {
    Engine* e = thread_context().engine;
    return e ? *e : process_default();
  }
  static Engine& process_default();

  // Runs `body(RunContext&)` once all accesses are granted. The vars must live until it has run.
  template <class F>
  void push(std::span<const Access> accesses, F&& body, const PushOptions& options = {}) {
    using B = std::decay_t<F>;
    auto* op = new OpNode;
    try {
      op->reserve_deps(accesses.size());
      OpBody<B>::store(*op, std::forward<F>(body));
    } catch (...) {
      op->free_deps();
      delete op;
      throw;
    }
    op->type = &OpBody<B>::type;
    op->label = options.label;
    op->priority = options.priority;
    op->transactional = options.transactional;
    for (size_t i = 0; i < accesses.size(); ++i) {
      op->deps[i].set(accesses[i].var, accesses[i].mode);
    }
    submit(*op);
  }
  template <class F>
  void push(std::initializer_list<Access> accesses, F&& body, const PushOptions& options = {}) {
    push(std::span<const Access>(accesses.begin(), accesses.size()), std::forward<F>(body), options);
  }

  // For ops/: a node whose type, label, deps (var and mode) and payload are set. Takes it over.
  void submit(OpNode& op);

  // Until writes pushed before are done; helps to execute meanwhile. Throws the var's failure.
  // Inside an operation it helps too, and throws WouldDeadlock when that operation itself holds the array.
  void wait(Var& var, AccessMode mode = AccessMode::read);
  // Calls `body` here and now, holding a read grant, when no write is running or queued; else returns false. Never helps,
  // never blocks. Throws the var's failure.
  bool read_now(Var& var, FunctionRef<void()> body);
  // Until nothing is pending. Throws AggregateError of the failures that no wait has reported yet.
  void wait_all();
  IdleAwaiter idle();  // co_await: wait_all for coroutines

  // True when the waiter was queued: its signal will be called. False: the var is ready now (error is set).
  bool enqueue_waiter(WaitNode& waiter);
  // Posts the coroutine once, when nothing is pending / when there is room under the in-flight limit again.
  void on_idle(std::coroutine_handle<> work, Executor& executor);
  void on_room(std::coroutine_handle<> work, Executor& executor);
  bool is_over_budget() const;
  std::exception_ptr take_unreported();  // the AggregateError that wait_all would throw, or nullptr

  // Runs one ready operation, if there is one and a slot is free. For executors that wait.
  bool help_once();

  EngineStats stats() const;
  const EngineOptions& options() const;
  Profiler& profiler();
  Executor& io_executor();
  void post_io(std::function<void()> work);  // on the io pool
  // Resumes on the io pool after `delay`.
  void post_io_after(std::chrono::nanoseconds delay, std::coroutine_handle<> work);
  bool on_worker() const;  // is this thread inside an operation of this engine?

  // Used by operations' RunContext.
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

  struct Impl;

 private:
  void on_level(uint64_t level, std::coroutine_handle<> work, Executor& executor);
  std::unique_ptr<Impl> impl_;
};

// Makes `engine` current in this thread until it ends.
class EngineScope {
 public:
  explicit EngineScope(Engine& engine) : saved_(std::exchange(thread_context().engine, &engine)) {}
  ~EngineScope() { thread_context().engine = saved_; }
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

 private:
  Engine* saved_;
};

// Seconds that `work` takes including everything that it pushed: waits for all before and after.
template <class F>
double time_all(F&& work, Engine& engine = Engine::current()) {
  engine.wait_all();
  auto start = std::chrono::steady_clock::now();
  std::forward<F>(work)();
  engine.wait_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace kaon

// Engine: runs operations in the order that their accesses demand, asynchronously.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/engine/operation.h"
#include "kaon/engine/run_context.h"
#include "kaon/engine/storage.h"
#include "kaon/engine/thread_context.h"

namespace KAON_API kaon {

class Executor;
class Profiler;

namespace engine {
class AdmitAwaiter;
class IdleAwaiter;
class MemoryBudget;
struct WaitNode;
}  // namespace engine

// The order in which an engine runs ready operations.
struct Schedule {
  enum class Kind : uint8_t {
    arrival,  // first ready, first run, on `threads` threads
    random,   // no worker: threads that push and wait run any operation that may run, as the seed says
    replay,   // the same with the choices of a file
  };
  Kind kind = Kind::arrival;
  uint64_t seed = 0;
  const char* file = nullptr;

  static constexpr Schedule random(uint64_t seed) { return {Kind::random, seed, nullptr}; }
  static constexpr Schedule replay(const char* file) { return {Kind::replay, 0, file}; }
};

struct EngineOptions {
  int threads = -1;    // -1: one for each core that the process may use; 0: serial, each op runs inside push, to debug
  int io_threads = 2;  // for loaders, files and timers
  // Operations pushed and not finished. A push outside of operations and Tasks that exceeds it blocks, helping to
  // execute, until a quarter of them has ended.
  int max_in_flight = 2048;
  size_t max_bytes = 0;  // of arrays, pending ones included; 0: no limit. A push that exceeds it blocks as above
  // How long an idle thread looks for work before it parks; not at all on one core. Ten times as long when it has
  // just run part of an operation that several threads share, and when it waits and the workers leave it a core.
  std::chrono::microseconds spin{30};
  Schedule schedule = {};  // Schedule::random(seed) looks for programs that depend on luck
};

struct EngineStats {
  // Pushed so far; a hybridized forward counts as one. Elementwise operators on a few elements that had nothing to wait
  // for run at their call and do not count.
  uint64_t ops = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;  // completed ops that threw (inherited failures not counted)
  int threads = 0;
};

// How it works. push() puts the operation into the queues of its vars; when all accesses are granted it enters the
// ready queue. At most `threads` threads execute or look for work at a time: workers, and threads that wait. A worker
// runs one operation, then the first successor that became ready, and so on (no queue in between); it puts the other
// successors into the ready queue. Workers come from an Asio thread pool and stay until they have found nothing for
// `spin`; Asio is paid once per idle-to-busy edge.
//
// A failing operation poisons what it writes; operations that read it do not run and pass the failure on; every wait
// on such an array throws. A full overwrite heals.
//
// An array may outlive its engine. From then on it can be read and destroyed; an operation on it throws StateError.
//
// A forked child has none of the engine's threads: there the process default starts anew, and an engine of the parent
// counts as ended; arrays that it had not finished at the fork cannot be read either.
//
// Thread safety: all functions, from any thread. Blocking: the destructor, wait, wait_all; push only at the limits of
// EngineOptions and with_budget, and only outside of Tasks and operations.
class Engine {
 public:
  // Starts the threads. Throws StateError when the system refuses one, IoError or ValueError for a schedule's file.
  explicit Engine(EngineOptions options = {});
  ~Engine();  // blocks until everything pushed has ended
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The innermost EngineScope's engine, else the process default (made on first use, finished at exit).
  static Engine& current() {
    const engine::EngineRef e = engine::thread_context().engine;
    return e ? e.get() : process_default();
  }
  static Engine& process_default();
  // Sets the options of the process default. Throws StateError when that exists already.
  static void set_default_options(const EngineOptions& options);

  // Runs `body(RunContext&)` once all accesses are granted. The vars must live until it has run. What the body throws
  // fails the vars that it writes. Throws StateError when the engine has ended, ValueError for more than 65535
  // accesses, MemoryError.
  template <class F>
  void push(std::span<const Access> accesses, F&& body, const PushOptions& options = {}) {
    push_as(engine::OpBody<std::decay_t<F>>::type, accesses, std::forward<F>(body), options);
  }
  // The same for a body that `type` runs.
  template <class F>
  void push_as(const engine::OpType& type, std::span<const Access> accesses, F&& body, const PushOptions& options) {
    using Body = engine::OpBody<std::decay_t<F>>;
    auto* op = new engine::OpNode;
    try {
      op->reserve_deps(accesses.size());
      Body::store(*op, std::forward<F>(body));
    } catch (...) {
      discard(op);
      throw;
    }
    op->type = &type;
    op->label = options.label;
    op->priority = options.priority;
    op->transactional = options.transactional;
    engine::Dep* dep = op->deps;
    for (const Access& a : accesses) (dep++)->set(a.var, a.mode);
    submit(*op);
  }
  template <class F>
  void push(std::initializer_list<Access> accesses, F&& body, const PushOptions& options = {}) {
    push(std::span<const Access>(accesses.begin(), accesses.size()), std::forward<F>(body), options);
  }

  // For ops/: takes over and pushes a node whose type, label, deps (var and mode) and payload are set. Throws as push.
  void submit(engine::OpNode& op);

  // Ends an operation whose type says ends_later, on any thread; the node may be destroyed by then.
  void complete(engine::OpNode& op, std::exception_ptr failure) noexcept;

  // Blocks until the writes pushed before are done (mode write, update: the reads too), helping to execute. Throws the
  // var's failure. Inside an operation it throws WouldDeadlock when that operation holds the var itself, or when all
  // operations that have begun wait for vars that only the end of one of them can release. So does co_await.
  void wait(engine::Var& var, AccessMode mode = AccessMode::read);
  // Calls `body` on this thread, holding a read grant, when no write is running or queued; else returns false. Never
  // helps, never blocks. Throws the var's failure.
  bool read_now(engine::Var& var, engine::FunctionRef<void()> body);
  // Calls `body` on this thread when no write to any of `reads` is running, queued or failed: for an operator that
  // takes less time than a push. False: push it. Always false inside an operation, under a chosen schedule, a limit or
  // the profiler, and on a serial engine. `body` must neither throw nor wait.
  bool run_now(std::span<engine::Var* const> reads, engine::FunctionRef<void(RunContext&)> body) noexcept;
  // Blocks, helping, until nothing is pending, GPUs included. Throws AggregateError of the failures that no wait has
  // reported yet (their first where all are one event, see error.h), DeviceError while a failed GPU is in use,
  // WouldDeadlock inside an operation.
  void wait_all();
  engine::IdleAwaiter idle();    // co_await: wait_all for coroutines
  engine::AdmitAwaiter admit();  // co_await: waits for room for more work, first come, first served; throws Cancelled
  template <class Token>
  auto async_admit(Token&& token);  // the same for Asio's completion tokens; defined in kaon/asio.h

  // The budget of this thread's new arrays and operations: the innermost with_budget's, else the engine's.
  // nullptr: none.
  engine::MemoryBudget* active_budget() const noexcept {
    engine::MemoryBudget* budget = engine::thread_context().budget;
    return budget ? budget : budget_.get();
  }
  std::stop_token stop_token() const noexcept;  // of the active budget: stopped when the scope is; empty without one

  // True when the waiter was queued: its signal will be called. False: the var is ready now (error is set).
  // resumes_on: the executor of a coroutine that waits; the operation that it is part of then counts as waiting.
  bool enqueue_waiter(engine::WaitNode& waiter, const Executor* resumes_on = nullptr);
  // Posts the coroutine once, when nothing is pending / when there is room under the in-flight limit again.
  void on_idle(std::coroutine_handle<> work, Executor& executor);
  void on_room(std::coroutine_handle<> work, Executor& executor);
  bool is_over_budget() const;  // in operations, or in bytes of the active budget; false inside an operation
  bool admits_now() const;      // there is room, and no earlier waiter for it
  // Marks the waiter as abandoned and removes it from its var's queue. False: it is not queued yet, or its signal is
  // being called.
  bool abandon_waiter(engine::WaitNode& waiter);
  std::exception_ptr take_unreported();  // the exception that wait_all would throw, or nullptr; throws std::bad_alloc

  // Runs one ready operation, if there is one and fewer than `threads` run. For executors that wait.
  bool help_once();
  bool has_workers() const;  // without them (serial, or a chosen schedule) threads that push and wait run everything

  EngineStats stats() const;
  const EngineOptions& options() const;
  // Writes the choices that Schedule::random has made so far, for Schedule::replay. Throws StateError under any other
  // schedule, IoError.
  void save_schedule(const std::filesystem::path& file) const;
  Profiler& profiler();
  Executor& io_executor();
  void post_io(std::function<void()> work);  // runs it on the io pool; throws StateError when the engine has ended
  // Posts the coroutine to `executor`, which must live until then, after `delay`. Throws StateError likewise.
  void post_after(std::chrono::nanoseconds delay, std::coroutine_handle<> work, Executor& executor);
  bool on_worker() const;  // is this thread inside an operation of this engine?

  // Used by operations' RunContext.
  void parallel_for(int64_t n, int64_t grain, engine::FunctionRef<void(int64_t, int64_t)> body);
  void grant(engine::Dep* list) noexcept;  // for SharedReadLease: hands out accesses that its end has granted

  // The engine has ended, or belongs to the parent of this forked process: its arrays can be read, nothing can be
  // pushed.
  bool is_gone() const noexcept;
  void check_not_gone(const char* op) const;  // throws StateError, which names `op`
  engine::EngineRef ref() const noexcept { return ref_; }
  // Calls `use` unless the engine has ended, which cannot happen during the call. `use` makes and ends no engine.
  static void use_if_alive(const engine::EngineRef& engine, engine::FunctionRef<void(Engine&)> use);
  // The engine of arrays whose own engine has ended. Made at the first call, never destroyed, without threads.
  static Engine& ended();

  struct Impl;
  Impl* impl() const noexcept { return impl_.get(); }  // for the engine's own sources

 private:
  struct Ended {  // not an aggregate: inside a template clang would convert {.threads = 2} to one
    explicit Ended() = default;
  };
  explicit Engine(Ended);

  static void discard(engine::OpNode* op) noexcept;  // one that has no body

  std::unique_ptr<Impl> impl_;
  const engine::EngineRef ref_;
  engine::IntrusivePtr<engine::MemoryBudget> budget_;  // max_bytes
};

// Makes `engine` current in this thread, or this coroutine, until it ends.
class EngineScope {
 public:
  explicit EngineScope(Engine& engine);
  ~EngineScope();
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

  // A scope inside this one. Arrays made in it take at most `bytes` (0: no limit) together: at the limit a push blocks
  // and helps to execute, a coroutine's next suspension point waits; a producer that alone keeps more than that resumes
  // when everything pending at the start of its wait has ended. Once `stop` is requested, operations pushed in the
  // scope that have not begun are dropped: the arrays that they would have written fail with Cancelled, those that a
  // transactional operation would have updated stay as they were. Running operations end, their failures unreported;
  // coroutines in the scope that wait for an array get Cancelled.
  EngineScope with_budget(size_t bytes, std::stop_token stop = {}) const&;
  // A temporary scope would end, and take the one inside it along, before the statement is over.
  EngineScope with_budget(size_t bytes, std::stop_token stop = {}) const&& = delete;
  size_t used_bytes() const noexcept;  // of with_budget's

 private:
  EngineScope(Engine& engine, engine::IntrusivePtr<engine::MemoryBudget> budget);

  Engine* current_;
  engine::IntrusivePtr<engine::MemoryBudget> own_;
  engine::EngineRef engine_;  // as it was outside
  engine::MemoryBudget* outer_;
};

// Seconds that `work` takes including everything that it pushes. Blocks: waits for everything before and after.
template <class F>
double time_all(F&& work, Engine& engine = Engine::current()) {
  engine.wait_all();
  auto start = std::chrono::steady_clock::now();
  std::forward<F>(work)();
  engine.wait_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace kaon

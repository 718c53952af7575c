// Engine: runs operations in the order that their accesses demand, asynchronously.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "kaon/engine/engine_ref.h"
#include "kaon/engine/executor.h"
#include "kaon/engine/memory/limits.h"
#include "kaon/engine/schedule.h"
#include "kaon/engine/scheduler/op_node.h"
#include "kaon/engine/thread_context.h"

namespace kaon {

class Profiler;
class Storage;

struct EngineOptions {
  int threads = -1;          // -1: as many as cores; 0: serial, each op runs inside push (the debugging engine)
  int io_threads = 2;        // for loaders, files and timers
  // Operations pushed and not finished. A push outside of operations and Tasks that exceeds it returns when a quarter
  // of them has ended, and helps to execute meanwhile.
  int max_in_flight = 2048;
  size_t max_bytes = 0;      // of arrays, pending ones included; 0: no limit. At the limit as above
  // How long an idle thread looks for work before it parks; not at all on one core. Ten times as long when it has
  // just had pieces of an operation that several threads share.
  std::chrono::microseconds spin{30};
  Schedule schedule = {};              // Schedule::random(seed) looks for programs that depend on luck
};

struct EngineStats {
  // Pushed so far; a hybridized forward counts as one. Elementwise operators on a few elements that had nothing to wait
  // for ran at their call and do not count.
  uint64_t ops = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;  // of these, ops that threw (inherited failures not counted)
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

class AdmitAwaiter;
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
// An array may outlive its engine. From then on it can be read and destroyed; an operation on it throws StateError.
//
// A forked child has none of the engine's threads: there the process default starts anew, and an engine of the parent
// is as one that has ended; what it had not finished at the fork cannot be read either.
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
    const EngineRef e = thread_context().engine;
    return e ? e.get() : process_default();
  }
  static Engine& process_default();
  // What the process default will be made with. Throws StateError when it exists already.
  static void set_default_options(const EngineOptions& options);

  // Runs `body(RunContext&)` once all accesses are granted. The vars must live until it has run.
  template <class F>
  void push(std::span<const Access> accesses, F&& body, const PushOptions& options = {}) {
    push_as(OpBody<std::decay_t<F>>::type, accesses, std::forward<F>(body), options);
  }
  // The same for a body that is run in another way.
  template <class F>
  void push_as(const OpType& type, std::span<const Access> accesses, F&& body, const PushOptions& options) {
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
    op->type = &type;
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

  // Ends an operation whose type says ends_later, on any thread; it may be gone afterwards.
  void complete(OpNode& op, std::exception_ptr failure) noexcept;

  // Until writes pushed before are done; helps to execute meanwhile. Throws the var's failure.
  // Inside an operation it helps too, and throws WouldDeadlock when that operation itself holds the array, or when all
  // operations that have begun wait for what only the end of one of them makes possible. The same goes for co_await.
  void wait(Var& var, AccessMode mode = AccessMode::read);
  // Calls `body` here and now, holding a read grant, when no write is running or queued; else returns false. Never
  // helps, never blocks. Throws the var's failure.
  bool read_now(Var& var, FunctionRef<void()> body);
  // Calls `body` here and now when no write to any of `reads` is running, queued or failed: for an operator that takes
  // less time than handing it over. False: push it; that is the answer wherever an operation around this call, a chosen
  // order, a limit or the profiler has a say, too. `body` must neither throw nor wait.
  bool run_now(std::span<Var* const> reads, FunctionRef<void(RunContext&)> body) noexcept;
  // Until nothing is pending, on GPUs either. Throws AggregateError of the failures that no wait has reported yet;
  // DeviceError as long as a GPU is in use that has failed.
  void wait_all();
  IdleAwaiter idle();    // co_await: wait_all for coroutines
  AdmitAwaiter admit();  // co_await: until there is room for more work, in the order of asking; throws Cancelled
  template <class Token>
  auto async_admit(Token&& token);  // the same for Asio's completion tokens; defined in kaon/asio.h

  // What new arrays and operations of this thread are subject to: those of the innermost with_budget, else the
  // engine's. nullptr: none.
  Limits* active_limits() const noexcept {
    Limits* l = thread_context().limits;
    return l ? l : limits_.get();
  }

  // True when the waiter was queued: its signal will be called. False: the var is ready now (error is set). Where a
  // coroutine waits, resumes_on is its executor: then an operation that it is part of counts as waiting, as in wait().
  bool enqueue_waiter(WaitNode& waiter, const Executor* resumes_on = nullptr);
  // Posts the coroutine once, when nothing is pending / when there is room under the in-flight limit again.
  void on_idle(std::coroutine_handle<> work, Executor& executor);
  void on_room(std::coroutine_handle<> work, Executor& executor);
  bool is_over_budget() const;  // in operations, or in bytes of the active limits; false inside an operation
  bool admits_now() const;      // there is room and nobody has asked for it before
  // Marks the waiter as abandoned and takes it out of its var's queue. False: it is not there yet, or its signal is
  // coming.
  bool abandon_waiter(WaitNode& waiter);
  std::exception_ptr take_unreported();  // what wait_all would throw, or nullptr; throws std::bad_alloc

  // Runs one ready operation, if there is one and a slot is free. For executors that wait.
  bool help_once();
  bool has_workers() const;  // without them (serial, or a chosen schedule) threads that push and wait run everything

  EngineStats stats() const;
  const EngineOptions& options() const;
  // The choices that Schedule::random has made so far, for Schedule::replay. Throws StateError under any other
  // schedule.
  void save_schedule(const std::filesystem::path& file) const;
  Profiler& profiler();
  Executor& io_executor();
  void post_io(std::function<void()> work);  // on the io pool
  // Posts the coroutine to `executor`, which must last until then, after `delay`.
  void post_after(std::chrono::nanoseconds delay, std::coroutine_handle<> work, Executor& executor);
  bool on_worker() const;  // is this thread inside an operation of this engine?

  // Used by operations' RunContext.
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

  // It has ended, or was made before a fork, in the parent: its arrays can be read, and nothing can be pushed.
  bool is_gone() const noexcept;
  void check_not_gone(const char* op) const;  // throws StateError, which names `op`
  EngineRef ref() const noexcept { return ref_; }
  // The engine of arrays whose own engine has ended. Made when first asked for, never destroyed, without threads.
  static Engine& ended();

  struct Impl;
  Impl* impl() const noexcept { return impl_.get(); }  // for the engine's own sources

 private:
  struct Ended {};
  explicit Engine(Ended);

  std::unique_ptr<Impl> impl_;
  const EngineRef ref_;
  IntrusivePtr<Limits> limits_;  // max_bytes
};

// Makes `engine` current in this thread, or this coroutine, until it ends.
class EngineScope {
 public:
  explicit EngineScope(Engine& engine) : EngineScope(engine, nullptr) {}
  ~EngineScope() {
    thread_context().engine = engine_;
    thread_context().limits = outer_;
  }
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

  // A scope inside this one. Arrays made in it take at most `bytes` (0: no limit) together: at the limit a plain
  // producer helps to execute, a coroutine's next suspension point waits; a producer that itself keeps more than that
  // goes on when all that was pending when it began to wait has ended. Once `stop` is requested, operations pushed in
  // it that have not begun are dropped: what they would have written is failed with Cancelled, what they would have
  // updated in place stays as it was where the operation is transactional; running ones end unseen; coroutines in it
  // that wait for an array get Cancelled.
  EngineScope with_budget(size_t bytes, std::stop_token stop = {}) const {
    IntrusivePtr<Limits> outer(own_ ? own_.get() : current_->active_limits());
    return EngineScope(*current_, IntrusivePtr<Limits>(new Limits(bytes, std::move(stop), std::move(outer))));
  }
  size_t used_bytes() const noexcept { return own_ ? own_->used() : 0; }  // of with_budget's

 private:
  EngineScope(Engine& engine, IntrusivePtr<Limits> limits)
      : current_(&engine),
        own_(std::move(limits)),
        engine_(std::exchange(thread_context().engine, engine.ref())),
        outer_(thread_context().limits) {
    if (own_) {
      thread_context().limits = own_.get();
    } else if (!(engine_ == engine.ref())) {
      thread_context().limits = nullptr;  // those of the scope around are another engine's
    }
  }

  Engine* current_;
  IntrusivePtr<Limits> own_;
  EngineRef engine_;  // as it was outside
  Limits* outer_;
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

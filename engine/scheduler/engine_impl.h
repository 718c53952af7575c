// The inside of Engine, shared by engine.cpp, workers.cpp, wait.cpp and parallel.cpp.
#pragma once

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

#include "kaon/engine/base/coroutine_queue.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/threads/call_memory.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/operation/failure_log.h"
#include "kaon/engine/operation/random_scheduler.h"
#include "kaon/engine/operation/ready_queue.h"
#include "kaon/engine/operation/serial_queue.h"
#include "kaon/engine/threads/worker_threads.h"

namespace kaon {

// The operation that this thread runs, and for which engine. Operations nest when one waits inside and helps.
struct Running {
  Engine::Impl* engine = nullptr;
  const OpNode* op = nullptr;
  Running* outer = nullptr;
};
inline thread_local Running* t_running = nullptr;
inline thread_local bool t_has_shared = false;  // has run parallel_for pieces since this thread last looked for work
inline thread_local bool t_is_helping = false;  // counted in Engine::Impl::helping
inline thread_local Engine::Impl* t_slot_of = nullptr;  // the engine whose slot this thread holds

// A wait for bytes of limited scopes: makes the engine check its waiters when bytes are freed. Ends when there is room,
// or when every op pending at its start has finished: a producer that alone exceeds the budget must not wait forever. A
// thread's wait does not end at the first byte below the limit, where its next push would wait again. Thread safety:
// any thread.
class BudgetWait {
 public:
  BudgetWait(Engine::Impl& engine, MemoryBudget& budget, bool is_thread);
  ~BudgetWait();
  BudgetWait(const BudgetWait&) = delete;
  BudgetWait& operator=(const BudgetWait&) = delete;

  bool is_over() const noexcept {
    const uint64_t left = left_.load(std::memory_order_seq_cst), pending = pushed_ - done_;
    return left == 0 ||
           (budget_.has_room() && (!is_thread_ || left <= pending - pending / 4 || budget_.has_much_room()));
  }
  BudgetWait* next = nullptr;  // in the engine's list
  // An operation has ended: its push number, and how many had ended before it. Under the engine's lock.
  void operation_ended(uint64_t sequence, uint64_t ended_before) noexcept {
    if (sequence <= pushed_ && ended_before >= done_) left_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  Engine::Impl& engine_;
  MemoryBudget& budget_;
  const bool is_thread_;
  uint64_t done_, pushed_;  // when the wait began
  std::atomic<uint64_t> left_;
};

// A coroutine, or a thread, that waits for the number of pending operations to fall to `level`.
struct ThrottleWaiter {
  ThrottleWaiter(std::coroutine_handle<> work, Executor* executor, uint64_t level, MemoryBudget* budget)
      : work(work), executor(executor), level(level), budget(budget) {}
  std::coroutine_handle<> work;
  Executor* executor;
  uint64_t level;
  IntrusivePtr<MemoryBudget> budget;  // must have room as well
  std::optional<BudgetWait> room;
  struct Look {
    Engine::Impl& engine;
    void operator()() const;
  };
  std::optional<std::stop_callback<Look>> stop;  // ends the wait when the scope is stopped
  const ThrottleWaiter* next_full = nullptr;     // of resume_waiters()
  bool waits_for_same(const ThrottleWaiter& o) const noexcept { return level == o.level && budget == o.budget; }

  bool is_over(uint64_t in_flight) const noexcept {
    return in_flight == 0 || (budget && budget->is_stopped()) ||
           (in_flight <= level && (room ? room->is_over() : !budget || budget->has_room()));
  }
};

// All waits inside an engine's operations, and the state of the periodic check whether any of them can still end.
// Linked through the waiters, because beginning such a wait must not fail: its operation may have handed out memory of
// its own that is written until the wait ends.
struct OpWaits {
  std::mutex mutex;
  WaitNode* newest = nullptr;
  std::atomic<size_t> count{0};  // their number, readable without the mutex
  uint64_t changes = 0;          // waits begun and ended
  uint64_t progress = 0;         // the engine's progress at the last check
  int quiet_looks = 0;           // consecutive checks without progress
  std::chrono::steady_clock::time_point last_look;
  bool is_watched = false;  // the timer checks
};

// A timer whose handlers run on the io pool. Unlike boost::asio::steady_timer, which erases the type of its executor,
// it allocates nothing when it fires: an exception there would end the process.
using PoolTimer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::thread_pool::executor_type>;

// The io pool as an executor. Posting allocates nothing unless very many coroutines are pending: see CoroutineQueue and
// CallMemory. A thread of the pool that has been called takes one coroutine, and calls another thread if there are
// more.
class IoExecutor : public Executor {
 public:
  IoExecutor(boost::asio::thread_pool& pool, int threads) : pool_(pool), calls_(threads) {}
  void post(std::coroutine_handle<> work) override;

 private:
  void call() noexcept;
  void run_one();

  boost::asio::thread_pool& pool_;
  CallMemory calls_;
  std::mutex mutex_;
  CoroutineQueue queue_;  // under mutex_
};

// Forks between the first process and this one: a child has none of its parent's threads.
inline std::atomic<uint32_t> g_forks{0};
constexpr uint32_t no_process = UINT32_MAX;  // for Engine::ended()

class Looking;

struct Engine::Impl {
  Impl(Engine& engine, const EngineOptions& o, uint32_t forks);

  // The engine has ended, or was made in the parent of this forked process: it has no threads here. Calls that need
  // them throw StateError.
  bool is_gone() const noexcept { return forks != g_forks.load(std::memory_order_relaxed); }
  [[noreturn]] void throw_gone(const char* op = "engine", const std::string& where = {}) const;
  // Throws StateError unless the var's last write has ended. Takes no lock: no thread writes any more, and one that
  // does not exist in this forked process may hold it.
  void check_finished(const Var& var) const;

  // --- workers.cpp
  void make_ready(OpNode& op) noexcept;  // queues it and wakes a worker if needed
  void put(OpNode& op) noexcept;         // the same for an op that is next on its serial queue, or has none
  SerialQueue* serial_queue_of(const OpNode& op) noexcept;
  void wake() noexcept;  // starts a worker unless one is looking for work already
  void drain();          // a worker's loop; holds a slot
  bool wait_for_work(std::chrono::microseconds time) const noexcept;  // spins that long; true: there is work
  OpNode* pop() noexcept;
  bool has_work() const noexcept;
  bool take_slot() noexcept;  // true: this thread may run operations until give_slot()
  void give_slot() noexcept;
  bool
  take_over_slot() noexcept;  // of a worker that has been posted and not started yet: starting takes 20 us and more
  bool claim_coming() noexcept;
  // This thread has finished its pieces of another thread's operation: it begins something else, or looks for work.
  void end_helping() noexcept {
    if (std::exchange(t_is_helping, false)) helping.fetch_sub(1, std::memory_order_relaxed);
  }
  // Runs ready operations until `done()` or until there are none. False when it ran none. `looking`: the caller's,
  // which is ended while operations run.
  bool help(FunctionRef<bool()> done, Looking* looking = nullptr);
  void run_burst();             // after a push, under a chosen schedule
  void run_serial(OpNode& op);  // in serial mode: this thread counts as a slot during the run
  void proceed(OpNode& op);     // runs or queues an op that has become ready outside of a chain
  void serve_later() noexcept;
  void run_chain(OpNode* op, FunctionRef<bool()>* stop = nullptr);

  // --- engine.cpp. Nothing here throws: an operation that has begun is always settled.
  OpNode* execute(OpNode& op) noexcept;  // returns a successor that is ready
  static bool is_dropped(const OpNode& op) noexcept { return op.budget && op.budget->is_stopped(); }
  // Stores or clears failures in the vars that the operation wrote, then finishes it.
  OpNode* settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates, bool heals) noexcept;
  OpNode* finish(OpNode& op) noexcept;
  void granted(OpBase& op, OpNode*& next, uint64_t by) noexcept;  // by: the op whose end granted it; 0: none
  void complete_waiter(WaitNode& waiter, OpNode*& next) noexcept;

  // --- process_engines.cpp
  static EngineRef take_place(Engine& engine);
  static void leave_place(const Engine& engine) noexcept;
  static void finish_all_engines();  // at the process's end

  // --- wait.cpp
  // op: the operation that waits, or nullptr; has_thread: a thread waits, which calls fail_if_stuck() itself.
  bool queue_waiter(WaitNode& waiter, const OpNode* op, bool has_thread);
  // Blocks, helping, until at most `level` operations are pending and the budget has room.
  void wait_for_level(uint64_t level, MemoryBudget* budget = nullptr);
  void back_off(int looks) const noexcept;  // a pause between two looks of a waiting thread
  void throttle();                          // at the in-flight limit
  uint64_t resume_level() const noexcept { return uint64_t(options.max_in_flight) * 3 / 4; }
  void count_parked(const ThrottleWaiter& waiter, int change) noexcept;
  void on_level(std::coroutine_handle<> work, Executor& executor, uint64_t level, MemoryBudget* budget);
  void grant_all(Dep* list) noexcept;  // hands out the accesses that a completed or removed one has granted
  // After an operation's end: its push number, and how many had ended before it.
  void check_parked(uint64_t sequence, uint64_t ended_before) noexcept;
  void resume_waiters() noexcept;
  bool has_room_wait_over();         // whether a wait for bytes can end
  void schedule_recheck() noexcept;  // if so, posts resume_waiters() to the io pool
  bool is_full() noexcept {
    done_seen.store(done.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return in_flight() > uint64_t(options.max_in_flight);
  }
  uint64_t in_flight() const noexcept {
    // done first: pushed can only have grown since. seq_cst: a thread that parks checks this after counting itself
    uint64_t d = done.load(std::memory_order_seq_cst);
    return pushed.load(std::memory_order_seq_cst) - d;
  }

  // --- deadlock.cpp
  const OpNode* callers_op() const noexcept;  // the innermost operation of this engine that the caller runs
  bool is_held_by_caller(const Var& var, AccessMode mode) const;  // true: both read; throws WouldDeadlock for a write
  void refuse_if_held_below(const Var& var) const;  // throws WouldDeadlock when an outer operation holds the var
  void refuse_inside(const char* what) const;       // throws WouldDeadlock inside an operation
  void begin_op_wait(WaitNode& waiter, const OpNode& op, bool has_thread) noexcept;
  void end_op_wait(WaitNode& waiter) noexcept;  // nothing if it is not registered
  // When no operation can proceed: ends the latest of these waits with WouldDeadlock. Called repeatedly during a wait.
  void fail_if_stuck() noexcept;
  bool is_stuck();                         // under the lock, as the next two
  size_t count_waiting_ops() const;        // operations with at least one registered wait
  void unlink(WaitNode& waiter) noexcept;  // removes it from op_waits
  void watch_op_waits();                   // starts the timer that checks
  void watch_again() noexcept;             // checks, and restarts the timer also without memory

  // --- buffer.cpp
  // From the storage. When that has no memory, lets other operations finish first; throws MemoryError naming the
  // largest holders.
  void* allocate(size_t bytes);
  void* allocate_after_others(size_t bytes);  // nullptr when their ends do not free enough

  // Under a chosen schedule, for a waiter without a thread: runs everything that is ready, at once.
  void serve() noexcept {
    if (!chosen) return;
    help([] { return false; });
    if (has_work()) serve_later();  // another thread has the slot, and may return with work undone
  }

  Engine& self;
  const uint32_t forks;
  EngineOptions options;
  int threads;
  ReadyQueue ready[3];
  std::array<SerialQueue, 8> serial_queues;  // launches on GPUs
  std::unique_ptr<RandomScheduler> chosen;   // replaces the queues under a schedule other than by arrival

  alignas(64) std::atomic<uint64_t> pushed{0};
  std::atomic<uint64_t> done_seen{0};  // `done` at an earlier push, so that a push does not touch the workers' line
  alignas(64) std::atomic<uint64_t> done{0};
  alignas(64) std::atomic<int> active{0};  // slots taken
  std::atomic<int> spinning{0};            // slots whose workers look for work
  std::atomic<int> helping{0};          // slots whose threads have run pieces of another's operation, and nothing since
  std::atomic<int> coming{0};           // slots of workers that have been posted and not started yet
  std::atomic<int> lacking{0};          // slots whose operations wait for memory with no operation to help
  std::atomic<int> looking{0};          // waiting threads without a slot that look for work
  std::atomic<int> parked{0};           // threads and coroutines waiting for a level
  std::atomic<int> parked_for_room{0};  // parked with a level above 0
  std::atomic<int> parked_for_ops{0};   // parked with a level above 0, not for bytes
  std::atomic<bool> uses_priorities{false};
  std::atomic<uint64_t> failed{0};
  std::atomic<bool> serves_later{false};  // a timer will call serve()
  // operations that have begun, besides those on slots:
  std::atomic<int> ending_later{0};  // coroutines
  std::atomic<int> nested{0};        // run inside the wait of another one, on its slot
  OpWaits op_waits;
  std::atomic<int> reading_now{0};  // bodies that read_now is running

  std::mutex park_mutex;
  std::condition_variable park;
  std::list<ThrottleWaiter> level_waiters;  // under park_mutex
  std::atomic<bool> looks_later{false};

  std::mutex room_mutex;
  BudgetWait* room_waits = nullptr;  // under room_mutex
  std::atomic<int> room_wait_count{0};

  FailureLog failures;
  Profiler profiler;
  CallMemory calls;
  WorkerThreads io;
  IoExecutor io_executor;
  std::unique_ptr<WorkerThreads> pool;  // none in serial mode and under a chosen schedule
};

// Counts a waiting thread without a slot while it looks for work: no worker is woken for work that it will find.
class Looking {
 public:
  explicit Looking(Engine::Impl& engine) : engine_(t_slot_of == &engine ? nullptr : &engine) { begin(); }
  ~Looking() { end(); }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

  void begin() noexcept {
    if (engine_) engine_->looking.fetch_add(1, std::memory_order_seq_cst);
  }
  void end() {
    // no other thread looks for work now: if there is some, start a worker
    if (engine_ && engine_->looking.fetch_sub(1, std::memory_order_seq_cst) == 1 && engine_->has_work()) {
      engine_->wake();
    }
  }

 private:
  Engine::Impl* engine_;
};

}  // namespace kaon

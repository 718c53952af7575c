// The inside of Engine, shared by engine.cpp, workers.cpp, wait.cpp and parallel.cpp.
#pragma once

#include <array>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <list>
#include <mutex>
#include <unordered_map>

#include "kaon/engine/engine.h"
#include "kaon/engine/memory/call_memory.h"
#include "kaon/engine/scheduler/chosen_order.h"
#include "kaon/engine/scheduler/failure_log.h"
#include "kaon/engine/scheduler/ready_queue.h"
#include "kaon/engine/scheduler/strand.h"
#include "kaon/engine/scheduler/worker_threads.h"
#include "kaon/engine/trace.h"

namespace kaon {

// What this thread does for which engine. Operations nest when one waits inside and helps.
struct Running {
  Engine::Impl* engine = nullptr;
  const OpNode* op = nullptr;
  Running* outer = nullptr;
};
inline thread_local Running* t_running = nullptr;
inline thread_local bool t_has_shared = false;  // pieces of an operation, since this thread last looked for work
inline thread_local bool t_is_helping = false;  // counted in Engine::Impl::helping
inline thread_local Engine::Impl* t_slot_of = nullptr;  // the engine whose slot this thread holds

// While somebody waits for bytes of limited scopes: sees to it that the engine looks when some are given back, and
// counts what is left of the operations that were pending when the wait began. Who keeps more than the limit itself
// gains nothing by waiting for later ones. A thread does not go on at the first byte below a limit, where its next push
// would wait again. Thread safety: any thread.
class RoomWait {
 public:
  RoomWait(Engine::Impl& engine, Limits& limits, bool is_thread);
  ~RoomWait();
  RoomWait(const RoomWait&) = delete;
  RoomWait& operator=(const RoomWait&) = delete;

  bool is_over() const noexcept {
    const uint64_t left = left_.load(std::memory_order_seq_cst), pending = pushed_ - done_;
    return left == 0 ||
           (limits_.has_room() && (!is_thread_ || left <= pending - pending / 4 || limits_.has_much_room()));
  }
  RoomWait* next = nullptr;  // in the engine's list
  // Of an operation's number in order of push, and how many had ended before it. Under the engine's lock.
  void operation_ended(uint64_t sequence, uint64_t ended_before) noexcept {
    if (sequence <= pushed_ && ended_before >= done_) left_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  Engine::Impl& engine_;
  Limits& limits_;
  const bool is_thread_;
  uint64_t done_, pushed_;  // when the wait began
  std::atomic<uint64_t> left_;
};

// A coroutine, or a thread, that waits for the number of pending operations to fall to `level`.
struct LevelWaiter {
  LevelWaiter(std::coroutine_handle<> work, Executor* executor, uint64_t level, Limits* limits)
      : work(work), executor(executor), level(level), limits(limits) {}
  std::coroutine_handle<> work;
  Executor* executor;
  uint64_t level;
  IntrusivePtr<Limits> limits;  // that must have room as well
  std::optional<RoomWait> room;
  struct Look {
    Engine::Impl& engine;
    void operator()() const;
  };
  std::optional<std::stop_callback<Look>> stop;  // a stopped scope waits for nothing
  const LevelWaiter* next_full = nullptr;        // of resume_waiters()
  bool waits_for_same(const LevelWaiter& o) const noexcept { return level == o.level && limits == o.limits; }

  bool is_over(uint64_t in_flight) const noexcept {
    return in_flight == 0 || (limits && limits->is_stopped()) ||
           (in_flight <= level && (room ? room->is_over() : !limits || limits->has_room()));
  }
};

// A wait for an array inside an operation that has begun.
struct OpWait {
  const OpNode* op = nullptr;
  uint64_t order = 0;  // of beginning
};

// All of an engine, and what the looks at them have seen: whether any of them can end.
struct OpWaits {
  std::mutex mutex;
  std::unordered_map<WaitNode*, OpWait> all;
  std::atomic<size_t> count{0};  // their number, for whoever does not take the mutex
  uint64_t changes = 0;          // begun and ended
  uint64_t progress = 0;         // of the engine, at the last look
  int quiet_looks = 0;           // that have seen no progress
  std::chrono::steady_clock::time_point last_look;
  bool is_watched = false;  // by the timer
};

class IoExecutor : public Executor {
 public:
  explicit IoExecutor(boost::asio::thread_pool& pool) : pool_(pool) {}
  void post(std::coroutine_handle<> work) override {
    boost::asio::post(pool_, [work] { resume_coroutine(work); });
  }

 private:
  boost::asio::thread_pool& pool_;
};

// How many forks lie between the first process and this one: a child has none of its parent's threads.
inline std::atomic<uint32_t> g_forks{0};
constexpr uint32_t no_process = UINT32_MAX;  // for Engine::ended()

class Looking;

struct Engine::Impl {
  Impl(Engine& engine, const EngineOptions& o, uint32_t forks);

  // It has ended, or was made before a fork, in the parent: its threads do not exist here. What would need them throws
  // StateError.
  bool is_gone() const noexcept { return forks != g_forks.load(std::memory_order_relaxed); }
  [[noreturn]] void throw_gone(const char* op = "engine", const std::string& where = {}) const;
  // Throws unless the var's last write has ended. Takes no lock: nobody writes any more, and a thread that a fork has
  // left behind may have taken it.
  void check_finished(const Var& var) const;

  // --- workers.cpp
  void make_ready(OpNode& op) noexcept;  // queue it and see that somebody comes
  void put(OpNode& op) noexcept;         // the same for one whose turn on its strand has come, or that has none
  Strand* strand_of(const OpNode& op) noexcept;
  void wake() noexcept;         // start a worker unless one is looking for work already
  void drain();                 // a worker's life; holds a slot
  bool wait_for_work(std::chrono::microseconds time) const noexcept;  // looks for so long; true when there is some
  OpNode* pop() noexcept;
  bool has_work() const noexcept;
  bool take_slot() noexcept;  // true: this thread may run operations until give_slot()
  void give_slot() noexcept;
  bool take_over_slot() noexcept;  // of a worker that has been called and has not come yet: that takes 20 us and more
  bool claim_coming() noexcept;
  // This thread's pieces of another's operation are over: it has begun something else, or looks for work.
  void end_helping() noexcept {
    if (std::exchange(t_is_helping, false)) helping.fetch_sub(1, std::memory_order_relaxed);
  }
  // Runs ready operations until `done()` or until there are none. False when it ran none. `looking`: how the caller
  // counts between such calls.
  bool help(FunctionRef<bool()> done, Looking* looking = nullptr);
  void run_some();              // after a push, under a chosen schedule
  void run_serial(OpNode& op);  // in serial mode: this thread counts as a slot meanwhile
  void proceed(OpNode& op);     // with what has become ready outside of a chain
  void serve_later() noexcept;
  void run_chain(OpNode* op, FunctionRef<bool()>* stop = nullptr);

  // --- engine.cpp. What has begun is settled, whatever fails meanwhile: nothing here throws.
  OpNode* execute(OpNode& op) noexcept;  // returns a successor that is ready
  static bool is_dropped(const OpNode& op) noexcept { return op.limits && op.limits->is_stopped(); }
  // Stores or clears failures in what the operation wrote, then finishes it.
  OpNode* settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates, bool heals) noexcept;
  OpNode* finish(OpNode& op) noexcept;
  void granted(OpBase& op, OpNode*& next, uint64_t by) noexcept;  // by: the operation, 0: none, whose end granted it
  void complete_waiter(WaitNode& waiter, OpNode*& next) noexcept;

  // --- process_engines.cpp
  static EngineRef take_place(Engine& engine);
  static void leave_place(const Engine& engine) noexcept;
  static void finish_all_engines();  // at the process's end

  // --- wait.cpp
  // op: the one that waits, or nullptr; has_thread: it calls fail_if_stuck() meanwhile.
  bool queue_waiter(WaitNode& waiter, const OpNode* op, bool has_thread);
  // Blocks, helping, until at most so many operations are pending and the limits have room.
  void wait_for_level(uint64_t level, Limits* limits = nullptr);
  void look_again(int looks) const noexcept;  // a pause between two looks of a waiting thread
  void throttle();                            // at the in-flight limit
  uint64_t resume_level() const noexcept { return uint64_t(options.max_in_flight) * 3 / 4; }
  void count_parked(const LevelWaiter& waiter, int change) noexcept;
  void on_level(std::coroutine_handle<> work, Executor& executor, uint64_t level, Limits* limits);
  void grant_all(Dep* list) noexcept;  // what a completed or removed access has granted
  // After an operation's end: its number, and how many had ended before it.
  void check_parked(uint64_t sequence, uint64_t ended_before) noexcept;
  void resume_waiters() noexcept;
  bool has_room_wait_over();   // has one of those who wait for bytes waited enough?
  void look_later() noexcept;  // if so, resume_waiters() on the io pool
  bool is_full() noexcept {
    done_seen.store(done.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return in_flight() > uint64_t(options.max_in_flight);
  }
  uint64_t in_flight() const noexcept {
    // done first: pushed can only have grown since. seq_cst: who parks looks here after saying so
    uint64_t d = done.load(std::memory_order_seq_cst);
    return pushed.load(std::memory_order_seq_cst) - d;
  }

  // --- deadlock.cpp
  const OpNode* callers_op() const noexcept;  // the innermost operation of this engine that the caller is inside of
  bool is_held_by_caller(const Var& var, AccessMode mode) const;  // for reading; throws WouldDeadlock for anything else
  void refuse_if_held_below(const Var& var) const;  // throws WouldDeadlock; the caller is about to wait for it
  void refuse_inside(const char* what) const;       // throws WouldDeadlock inside an operation
  void begin_op_wait(WaitNode& waiter, const OpNode& op, bool has_thread);
  void end_op_wait(WaitNode& waiter) noexcept;  // if it is one
  // When no operation can go on any more: ends the latest of these waits with WouldDeadlock. Called while one lasts.
  void fail_if_stuck() noexcept;
  bool is_stuck();                // under the lock, as the next two
  int count_waiting_ops() const;  // that have begun
  void watch_op_waits();          // looks after a while, and so on
  void watch_again() noexcept;    // the same where there may be no memory for it

  // --- chunk.cpp
  // From the storage. Lets other operations finish where it has none; throws MemoryError with the largest holders.
  void* allocate(size_t bytes);
  void* allocate_after_others(size_t bytes);  // nullptr when there never are so many

  // Under a chosen schedule a waiter that no thread stands behind is served at once: runs all that is ready.
  void serve() noexcept {
    if (!chosen) return;
    help([] { return false; });
    if (has_work()) serve_later();  // another thread has the slot, and may leave with work undone
  }

  Engine& self;
  const uint32_t forks;
  EngineOptions options;
  int threads;
  ReadyQueue ready[3];
  std::array<Strand, 8> strands;  // of GPUs
  std::unique_ptr<ChosenOrder> chosen;  // takes the queues' place under a schedule that is not by arrival

  alignas(64) std::atomic<uint64_t> pushed{0};
  std::atomic<uint64_t> done_seen{0};  // `done` at an earlier push: its own cache line is the workers'
  alignas(64) std::atomic<uint64_t> done{0};
  alignas(64) std::atomic<int> active{0};  // slots taken
  std::atomic<int> spinning{0};            // of these, looking for work
  std::atomic<int> helping{0};             // of these, with pieces of another's operation, until they do something else
  std::atomic<int> coming{0};              // of these, of workers that have been called and have not come yet
  std::atomic<int> lacking{0};             // of these, whose operations wait for memory and have found none to help
  std::atomic<int> looking{0};             // waiting threads without a slot that look for work
  std::atomic<int> parked{0};              // threads and coroutines waiting for a level
  std::atomic<int> parked_for_room{0};     // of these, waiting for more than level 0
  std::atomic<int> parked_for_ops{0};      // of these, waiting for no bytes
  std::atomic<bool> uses_priorities{false};
  std::atomic<uint64_t> failed{0};
  std::atomic<bool> serves_later{false};  // serve() comes again
  // besides those on slots, operations that have begun:
  std::atomic<int> ending_later{0};  // coroutines
  std::atomic<int> nested{0};        // run by one that waits, on its slot
  OpWaits op_waits;
  std::atomic<int> reading_now{0};  // bodies of read_now

  std::mutex park_mutex;
  std::condition_variable park;
  std::list<LevelWaiter> level_waiters;  // under park_mutex
  std::atomic<bool> looks_later{false};

  std::mutex room_mutex;
  RoomWait* room_waits = nullptr;  // under room_mutex
  std::atomic<int> room_wait_count{0};

  FailureLog failures;
  Profiler profiler;
  CallMemory calls;
  WorkerThreads io;
  IoExecutor io_executor;
  std::unique_ptr<WorkerThreads> pool;  // none in serial mode and under a chosen schedule
};

// A thread that waits without a slot of its own, while it looks for work: nobody is woken for what it will see.
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
    // nobody else looks for work now: if there is some, start a worker
    if (engine_ && engine_->looking.fetch_sub(1, std::memory_order_seq_cst) == 1 && engine_->has_work()) {
      engine_->wake();
    }
  }

 private:
  Engine::Impl* engine_;
};

}  // namespace kaon

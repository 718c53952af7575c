// The inside of Engine, shared by engine.cpp, workers.cpp, wait.cpp and parallel.cpp.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "kaon/engine/engine.h"
#include "kaon/engine/ready_queue.h"
#include "kaon/engine/trace.h"

namespace kaon {

// What this thread does for which engine. Operations nest when one waits inside and helps.
struct Running {
  Engine::Impl* engine = nullptr;
  const OpNode* op = nullptr;
  Running* outer = nullptr;
};
inline thread_local Running* t_running = nullptr;
inline thread_local Engine::Impl* t_slot_of = nullptr;  // the engine whose slot this thread holds

// A coroutine that waits for the number of pending operations to fall to `level`.
struct LevelWaiter {
  std::coroutine_handle<> work;
  Executor* executor;
  uint64_t level;
  IntrusivePtr<Limits> limits;  // that must have room as well
  struct Look {
    Engine::Impl& engine;
    void operator()() const;
  };
  std::unique_ptr<std::stop_callback<Look>> stop = nullptr;  // a stopped scope waits for nothing

  // When nothing is pending, waiting longer would change nothing.
  bool is_over(uint64_t in_flight) const noexcept {
    return in_flight == 0 || (limits && limits->is_stopped()) ||
           (in_flight <= level && (!limits || limits->has_room()));
  }
};

// Since when a waiting operation has seen no progress.
struct StuckWatch {
  uint64_t progress = 0;  // operations pushed + done
  std::chrono::steady_clock::time_point since;
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

struct Engine::Impl {
  explicit Impl(Engine& engine, const EngineOptions& o);

  // Made before a fork, in the parent: its threads do not exist here. What would need them throws StateError.
  bool is_orphan() const noexcept { return forks != g_forks.load(std::memory_order_relaxed); }
  [[noreturn]] static void throw_orphan();

  // --- workers.cpp
  void make_ready(OpNode& op);          // queue it and see that somebody comes
  void wake();                          // start a worker unless one is looking for work already
  void drain();                         // a worker's life; holds a slot
  bool wait_for_work() const noexcept;  // looks for at most `spin`; true when there is some
  OpNode* pop() noexcept;
  bool has_work() const noexcept;
  bool take_slot() noexcept;  // true: this thread may run operations until give_slot()
  void give_slot() noexcept;
  bool take_over_slot() noexcept;  // of a worker that has been called and has not come yet: that takes 20 us and more
  bool claim_coming() noexcept;
  // Runs ready operations until `done()` or until there are none. False when it ran none.
  bool help(FunctionRef<bool()> done);
  void run_some();              // after a push, under a chosen schedule
  void run_serial(OpNode& op);  // in serial mode: this thread counts as a slot meanwhile
  void proceed(OpNode& op);     // with what has become ready outside of a chain
  void serve_later();
  void run_chain(OpNode* op, FunctionRef<bool()>* stop = nullptr);

  // --- engine.cpp
  OpNode* execute(OpNode& op);  // returns a successor that is ready
  static bool is_dropped(const OpNode& op) noexcept { return op.limits && op.limits->is_stopped(); }
  // Stores or clears failures in what the operation wrote, then finishes it.
  OpNode* settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates, bool heals);
  OpNode* finish(OpNode& op);
  IntrusivePtr<const OpError> inherited(const OpNode& op, bool& heals) const;
  IntrusivePtr<const OpError> new_error(const OpNode& op, std::exception_ptr e, bool is_reported = false);
  void granted(OpBase& op, OpNode*& next, uint64_t by);  // by: the operation, 0 for none, whose end granted it
  void complete_waiter(WaitNode& waiter, OpNode*& next);

  static void finish_default();  // at the process's end

  // --- wait.cpp
  bool queue_waiter(WaitNode& waiter);
  // Blocks, helping, until at most so many operations are pending and the limits have room.
  void wait_for_level(uint64_t level, Limits* limits = nullptr);
  void throttle();  // at the in-flight limit
  uint64_t resume_level() const noexcept { return uint64_t(options.max_in_flight) * 3 / 4; }
  void count_parked(uint64_t level, int change) noexcept;
  void on_level(LevelWaiter waiter);
  void grant_all(Dep* list);                                      // what a completed or removed access has granted
  bool is_held_by_caller(const Var& var, AccessMode mode) const;  // for reading; throws WouldDeadlock for anything else
  bool is_stuck(StuckWatch& watch) const noexcept;
  void refuse_inside(const char* what) const;  // throws WouldDeadlock inside an operation
  void check_parked();
  void resume_waiters();
  uint64_t in_flight() const noexcept {
    // done first: pushed can only have grown since. seq_cst: who parks looks here after saying so
    uint64_t d = done.load(std::memory_order_seq_cst);
    return pushed.load(std::memory_order_seq_cst) - d;
  }

  // --- chunk.cpp
  // Lets other operations finish until there are so many bytes; nullptr when there never are.
  void* allocate_after_others(size_t bytes);

  // Under a chosen schedule a waiter that no thread stands behind is served at once: runs all that is ready.
  void serve() {
    if (!chosen) return;
    help([] { return false; });
    if (has_work()) serve_later();  // another thread has the slot, and may leave with work undone
  }

  Engine& self;
  const uint32_t forks = g_forks.load(std::memory_order_relaxed);
  EngineOptions options;
  int threads;
  ReadyQueue ready[3];
  std::unique_ptr<ChosenOrder> chosen;  // takes the queues' place under a schedule that is not by arrival

  alignas(64) std::atomic<uint64_t> pushed{0};
  alignas(64) std::atomic<uint64_t> done{0};
  alignas(64) std::atomic<int> active{0};  // slots taken
  std::atomic<int> spinning{0};            // of these, looking for work
  std::atomic<int> coming{0};              // of these, of workers that have been called and have not come yet
  std::atomic<int> parked{0};              // threads and coroutines waiting for a level
  std::atomic<int> parked_for_room{0};     // of these, waiting for more than level 0
  std::atomic<bool> uses_priorities{false};
  std::atomic<uint64_t> failed{0};
  std::atomic<int> ending_later{0};       // operations that have begun and hold no slot
  std::atomic<bool> serves_later{false};  // serve() comes again
  std::atomic<int> blocked{0};            // slots whose operation waits and finds nothing to run

  std::mutex park_mutex;
  std::condition_variable park;
  std::vector<LevelWaiter> level_waiters;  // under park_mutex

  std::mutex error_mutex;
  std::vector<IntrusivePtr<const OpError>> unreported;
  size_t prune_at = 64;  // size at which those that were reported since are dropped

  Profiler profiler;
  boost::asio::thread_pool io;
  IoExecutor io_executor;
  std::unique_ptr<boost::asio::thread_pool> pool;  // none in serial mode and under a chosen schedule
};

}  // namespace kaon

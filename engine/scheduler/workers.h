// Workers: the threads that run ready operations, and the loops in which they and waiting threads do so.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "kaon/engine/engine.h"
#include "kaon/engine/threads/call_memory.h"
#include "kaon/engine/threads/slots.h"
#include "kaon/engine/threads/worker_threads.h"

namespace kaon::engine {

class SpinningWaiter;
class Workers;

inline thread_local const Workers* t_slot_of = nullptr;  // whose slot this thread holds
inline thread_local bool t_has_shared = false;  // has run parallel_for pieces since this thread last looked for work
inline thread_local bool t_is_helping = false;  // counted by Slots::begin_helping

// At most `slots.count()` threads run operations: workers, and threads that wait and help. A worker runs an operation,
// then the first successor that became ready, and so on. Thread safety: any thread.
class Workers {
 public:
  // Throws StateError. `threads`: 0: serial; `has_pool`: false when threads that push and wait run everything.
  Workers(Engine::Impl& engine, int threads, bool has_pool);

  Slots slots;
  bool has_pool() const noexcept { return pool_ != nullptr; }
  bool is_serial() const noexcept { return slots.count() == 0; }
  bool caller_has_slot() const noexcept { return t_slot_of == this; }
  void join();  // blocks: until nothing is left to do

  void make_ready(OpNode& op) noexcept;  // queues it and wakes a worker if needed
  void wake() noexcept;                  // starts a worker unless one is looking for work already
  void proceed(OpNode& op) noexcept;     // runs or queues an operation that has become ready outside of a chain
  void run_serial(OpNode& op) noexcept;  // in serial mode: this thread counts as a slot during the run
  // Runs ready operations until `done()` or until there are none. False when it ran none. `waiter`: the caller's, which
  // is ended while operations run.
  bool help(FunctionRef<bool()> done, SpinningWaiter* waiter = nullptr);
  void run_burst();       // after a push, under a chosen schedule
  void serve() noexcept;  // for a waiter without a thread, under a chosen schedule: runs everything that is ready
  // How long a waiting thread looks for an end or for work before it sleeps.
  std::chrono::microseconds patience() const noexcept;
  // Spares the core of a waiting thread whose `looks`th look has found nothing to run.
  void back_off(int looks) const noexcept;
  // This thread has finished its pieces of another thread's operation: it begins something else, or looks for work.
  void end_helping() noexcept {
    if (std::exchange(t_is_helping, false)) slots.end_helping();
  }
  // Operations that run inside the wait of another one, on its slot.
  int nested() const noexcept { return nested_.load(std::memory_order_seq_cst); }

 private:
  void put(OpNode& op) noexcept;  // make_ready for one that is next on its serial queue, or has none
  void drain();                   // a worker's loop; holds a slot
  bool begin_work() noexcept;     // of a worker that was called; true: it holds a slot that counts as spinning
  bool nap() noexcept;            // as begin_work, of the only worker, which returns from time to time to look for work
  bool wait_for_work(std::chrono::microseconds time) const noexcept;  // spins that long; true: there is work
  void run_chain(OpNode* op, FunctionRef<bool()>* stop = nullptr);
  void serve_later() noexcept;

  Engine::Impl& engine_;
  const int cores_;
  std::atomic<int> nested_{0};
  std::atomic<bool> serves_later_{false};  // a timer will call serve()
  std::atomic<bool> naps_{false};          // the only worker will look at the queue in a moment
  std::atomic<bool> ends_{false};          // join() has been called
  int vain_calls_ = 0;                     // in a row; of the only worker, which alone uses it
  CallMemory calls_;
  std::unique_ptr<WorkerThreads> pool_;
};

// Counts a waiting thread without a slot while it looks for work: no worker is woken for work that it will find.
class SpinningWaiter {
 public:
  explicit SpinningWaiter(Engine::Impl& engine);
  ~SpinningWaiter() { end(); }
  SpinningWaiter(const SpinningWaiter&) = delete;
  SpinningWaiter& operator=(const SpinningWaiter&) = delete;

  void begin() noexcept;
  void end() noexcept;

 private:
  Engine::Impl* engine_;
};

}  // namespace kaon::engine

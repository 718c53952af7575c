// Backpressure: the waiting for room, which keeps a program from running too far ahead of its engine.
#pragma once

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "kaon/engine/await.h"
#include "kaon/engine/memory/memory_budget.h"
#include "kaon/engine/operation/op_counts.h"

namespace kaon::engine {

// How it works. There are three kinds of room: operations in flight (EngineOptions::max_in_flight), bytes of a budget
// (EngineOptions::max_bytes, EngineScope::with_budget) and memory of the system. Whoever waits for the first two is a
// Waiter: a thread whose push has exceeded a limit, or that waits for everything to end; a coroutine at its next
// suspension point, at admit() or at idle(); a handler of Asio (async_admit), which looks like a coroutine from here.
// Each wait goes through these states:
//
//                    nothing to help for `spin`, then park()
//   throttle() --> looking <------------------------------> parked      a thread: runs operations; sleeps on `park_`
//                     |        every 10 ms, or notified        |
//                     +---------- is_over() ------------------> returns
//
//   resume_when() --> parked ---- is_over(), unpark() --> due --> posted      a coroutine: in `queue_`
//
// A wait is over when at most `level` operations are in flight and its budget has room; also when nothing is in flight
// at all, or its scope has been stopped. Level 0 is a wait for everything; the other level is three quarters of
// max_in_flight, so that a producer that has been stopped once does not stop again at its next push. For the same
// reason a thread that waits for bytes goes on only when a quarter of the limit is free, or a quarter of what was
// pending has ended. A producer that alone keeps more than the limit gains nothing by waiting: so a wait for bytes also
// ends when every operation that was pending at its start has ended (`left_`).
//
// What makes a wait end calls one of these, and each looks at the waits again:
//   operation_ended()    the end of an operation, if anybody is parked
//   bytes_given_back()   the end of an array that a budget counts, if anybody waits for bytes of it
//   the stop callback    of the scope
// No end is missed: a waiter counts itself in `parked_` and then looks at its condition once more, and who changes the
// condition does so before it reads `parked_`. Coroutines with equal level and budget are resumed first come, first
// served: whichever thread finds them due, one thread at a time posts them, in the order in which they were found.
//
// A coroutine that is due must reach its executor, and posting may need memory of the system, the third kind of room.
// until_there_is_memory() waits for that, here and wherever else a coroutine or a handler is due: there is nobody to
// throw to, and what waits for memory may be what frees it.
//
// Thread safety: any thread.
class Backpressure final : private MemoryBudget::Listener {
 public:
  explicit Backpressure(Engine::Impl& engine);  // whose options and counts have been made
  ~Backpressure();

  // After a push that has exceeded a limit. Blocks, helping, until there is room; not inside operations and Tasks,
  // which might wait for themselves.
  void throttle();
  // Blocks, helping, until nothing is in flight.
  void wait_until_idle() { wait_until(0, nullptr); }

  // Posts the coroutine once: when there is room; when nothing is in flight and the GPUs have run what was launched.
  // Throws StateError when the engine has ended, std::bad_alloc.
  void resume_when_room(std::coroutine_handle<> work, Executor& executor);
  void resume_when_idle(std::coroutine_handle<> work, Executor& executor);

  // Of operations, or of the budget.
  bool is_over_limit(const MemoryBudget* budget) const noexcept {
    return counts_.in_flight() >= max_in_flight_ || (budget && !budget->has_room());
  }
  bool has_parked_for_room() const noexcept { return parked_for_room_.load(std::memory_order_seq_cst) > 0; }

  bool has_waiters() const noexcept { return parked_.load(std::memory_order_seq_cst) != 0; }
  // After an operation's end, while there are waiters: its push number, and how many had ended before it.
  void operation_ended(uint64_t sequence, uint64_t ended_before) noexcept;

  // Calls `attempt`, which throws std::bad_alloc or MemoryError where there is no memory, until it returns. In between
  // it gives the storage's cache back to the system, and sleeps for a millisecond.
  static void until_there_is_memory(FunctionRef<void()> attempt) noexcept;

 private:
  class Waiter;
  struct DueQueue;

  uint64_t resume_level() const noexcept { return max_in_flight_ * 3 / 4; }
  void wait_until(uint64_t level, MemoryBudget* budget);
  void resume_when(std::coroutine_handle<> work, Executor& executor, uint64_t level, MemoryBudget* budget);
  void park(const Waiter& waiter) noexcept { count(waiter, 1); }
  void unpark(const Waiter& waiter) noexcept { count(waiter, -1); }
  void count(const Waiter& waiter, int change) noexcept;
  void resume_due() noexcept;  // wakes threads to look, and posts the coroutines whose wait is over
  void bytes_given_back() noexcept override;
  bool has_wait_for_bytes_over();

  Engine::Impl& engine_;
  OpCounts& counts_;
  const uint64_t max_in_flight_;
  std::atomic<int> parked_{0};           // waits that are parked, and those for bytes once more
  std::atomic<int> parked_for_room_{0};  // parked with a level above 0
  std::atomic<int> parked_for_ops_{0};   // of these: not for bytes

  std::mutex park_mutex_;
  std::condition_variable park_;         // threads
  std::list<Waiter> queue_;              // coroutines, under park_mutex_
  const std::shared_ptr<DueQueue> due_;  // outlives this object where the last coroutine posted ends the engine
  std::atomic<bool> will_look_{false};   // the io pool will call resume_due()

  std::mutex bytes_mutex_;
  Waiter* waits_for_bytes_ = nullptr;  // linked by next_for_bytes_, under bytes_mutex_
  std::atomic<int> waits_for_bytes_count_{0};
};

}  // namespace kaon::engine

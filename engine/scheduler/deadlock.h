// DeadlockWatch: waits inside operations; it finds those that can never end, and ends them with WouldDeadlock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "kaon/engine/engine.h"
#include "kaon/engine/operation/wait_node.h"

namespace kaon::engine {

// An operation that waits keeps its accesses, so its wait may be for something that only its own end makes possible. A
// wait for what the operation itself holds is refused at once; the others are registered here, and when no operation
// can proceed the latest of them ends. Thread safety: any thread.
class DeadlockWatch {
 public:
  explicit DeadlockWatch(Engine::Impl& engine) : engine_(engine) {}

  const OpNode* callers_op() const noexcept;  // the innermost operation of this engine that the caller runs
  bool is_held_by_caller(const Var& var, AccessMode mode) const;  // true: both read; throws WouldDeadlock for a write
  void refuse_if_held_below(const Var& var) const;  // throws WouldDeadlock when an outer operation holds the var
  void refuse_inside(const char* what) const;       // throws WouldDeadlock inside an operation

  // has_thread: a thread waits, which calls fail_if_stuck() itself.
  void begin_wait(WaitNode& waiter, const OpNode& op, bool has_thread) noexcept;
  void end_wait(WaitNode& waiter) noexcept {  // nothing if it is not registered
    if (count_.load(std::memory_order_seq_cst) > 0) unregister(waiter);
  }
  // When no operation can proceed: ends the latest of these waits with WouldDeadlock. Called repeatedly during a wait.
  void fail_if_stuck() noexcept;

 private:
  // With the mutex held:
  bool is_stuck();
  size_t count_waiting_ops() const;  // operations with at least one registered wait
  void unlink(WaitNode& waiter) noexcept;
  void watch();  // starts the timer that checks

  void unregister(WaitNode& waiter) noexcept;
  void watch_again() noexcept;  // checks, and restarts the timer also without memory

  Engine::Impl& engine_;
  std::mutex mutex_;
  // Linked through the waiters, because beginning a wait must not fail: its operation may have handed out memory of its
  // own that is written until the wait ends.
  WaitNode* newest_ = nullptr;
  std::atomic<size_t> count_{0};  // their number, readable without the mutex
  uint64_t changes_ = 0;          // waits begun and ended
  uint64_t progress_ = 0;         // the engine's progress at the last check
  int quiet_looks_ = 0;           // consecutive checks without progress
  std::chrono::steady_clock::time_point last_look_;
  bool is_watched_ = false;  // the timer checks
};

}  // namespace kaon::engine

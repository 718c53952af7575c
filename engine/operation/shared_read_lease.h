// SharedReadLease: read access to many vars that lasts from operation to operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kaon/engine/intrusive_ptr.h"
#include "kaon/engine/operation/var.h"
#include "kaon/engine/thread_context.h"

namespace kaon::engine {

// A net that runs again and again reads the same parameters each time. Operations that share a shared read lease enter
// it with one atomic instruction, instead of a lock and two transfers of a cache line between cores for each var. A
// write that is queued at one of the vars ends the shared read lease: the write waits for the operations inside, and
// later operations queue at each var. A shared read lease that has ended does not begin again.
//
// Why operations stay in order: an operation enters a shared read lease, and a write ends it, while holding the locks
// of all vars that it accesses itself. So two operations that conflict at a var of the shared read lease and at another
// var are in the same order at both.
//
// Thread safety: any thread. The vars must outlive it.
class SharedReadLease : public RefCounted<SharedReadLease> {
 public:
  explicit SharedReadLease(EngineRef engine) : engine_(engine) {}  // of the vars
  virtual ~SharedReadLease() = default;                            // it has ended, or never begun

  // Called once. False, without any change, when one of the vars is being written, has a queued access or a failed last
  // write, and when there is no memory.
  bool begin(std::vector<Var*> vars);
  bool has_ended() const noexcept { return (state_.load(std::memory_order_acquire) & ended) != 0; }
  std::span<Var* const> vars() const noexcept { return vars_; }
  bool has(const Var& var) const noexcept;

  // Called by an operation that holds the locks of the vars in its own accesses. False: the shared read lease has
  // ended.
  bool enter() noexcept {
    uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if (state & ended) return false;
    } while (!state_.compare_exchange_weak(state, state + one_inside, std::memory_order_acq_rel));
    return true;
  }
  // Called by an operation that has entered, at its end. `granted` gets the lists of accesses that this grants.
  void leave(FunctionRef<void(Dep*)> granted) {
    if (state_.fetch_sub(one_inside, std::memory_order_acq_rel) == (one_inside | ended)) give_back(granted);
  }

  // Ends one that has begun. Called by its owner, who holds no var's lock.
  void end();
  // Ends all shared read leases of this var. Called by an operation that holds its lock and is about to queue a write.
  // Adds those without an operation inside to the list `to_give_back`, for give_back_all() once no lock is held.
  static void end_all_at(const Var& var, SharedReadLease*& to_give_back);
  static void give_back_all(SharedReadLease* list, FunctionRef<void(Dep*)> granted);

 private:
  static constexpr uint64_t ended = 1, one_inside = 2;

  bool mark_ended() noexcept {  // true: the caller gives the grants back
    return state_.fetch_or(ended, std::memory_order_acq_rel) == 0;
  }
  void give_back(FunctionRef<void(Dep*)> granted);

  const EngineRef engine_;
  std::atomic<uint64_t> state_{0};
  std::vector<Var*> vars_;  // by address, each once
  SharedReadLease* next_ = nullptr;
};

}  // namespace kaon::engine

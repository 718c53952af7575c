// StandingRead: read access to many vars that lasts from operation to operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kaon/engine/engine_ref.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/engine/run_context.h"
#include "kaon/engine/scheduler/var.h"

namespace kaon {

// Who runs a net again and again reads the same parameters each time. Operations that share a standing read enter it
// with one atomic instruction, where each var by itself costs a lock and the way of a cache line to another core and
// back. A write that is queued at one of the vars ends it: it waits for those who are inside, and whoever comes later
// queues at each var. One that has ended does not begin again.
//
// Why the order of operations stays whole: operations enter, and writes end, while they hold the locks of all vars that
// they access themselves. So of two that meet at a var of the standing read and at another one, the same is first at
// both.
//
// Thread safety: any thread. The vars must outlive it.
class StandingRead : public RefCounted<StandingRead> {
 public:
  explicit StandingRead(EngineRef engine) : engine_(engine) {}  // of the vars
  virtual ~StandingRead() = default;  // it has ended, or never begun

  // False, and nothing is changed, when one of the vars is being written, waits for that, or its last write has failed,
  // or where there is no memory. Once.
  bool begin(std::vector<Var*> vars);
  bool has_ended() const noexcept { return (state_.load(std::memory_order_acquire) & ended) != 0; }
  std::span<Var* const> vars() const noexcept { return vars_; }
  bool has(const Var& var) const noexcept;

  // By an operation that holds the locks of the vars that it accesses itself. False: it has ended.
  bool enter() noexcept {
    uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if (state & ended) return false;
    } while (!state_.compare_exchange_weak(state, state + one_inside, std::memory_order_acq_rel));
    return true;
  }
  // By an operation that has entered, at its end. `granted` is given what may go on now, lists of accesses.
  void leave(FunctionRef<void(Dep*)> granted) {
    if (state_.fetch_sub(one_inside, std::memory_order_acq_rel) == (one_inside | ended)) give_back(granted);
  }

  // Of one that has begun. By its owner, who does not hold the lock of any var.
  void end();
  // All that stand at this var, by whoever holds its lock and is going to queue a write there. Adds those that nobody
  // is inside of to the list `to_give_back`, which is given to give_back_all() when no lock is held any more.
  static void end_all_at(const Var& var, StandingRead*& to_give_back);
  static void give_back_all(StandingRead* list, FunctionRef<void(Dep*)> granted);

 private:
  static constexpr uint64_t ended = 1, one_inside = 2;

  bool mark_ended() noexcept {  // true: the caller gives the grants back
    return state_.fetch_or(ended, std::memory_order_acq_rel) == 0;
  }
  void give_back(FunctionRef<void(Dep*)> granted);

  const EngineRef engine_;
  std::atomic<uint64_t> state_{0};
  std::vector<Var*> vars_;  // by address, each once
  StandingRead* next_ = nullptr;
};

}  // namespace kaon

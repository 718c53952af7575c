// Slots: how many threads may run operations at a time, and what those that look for work are doing.
#pragma once

#include <atomic>

namespace kaon::engine {

// A thread that runs operations holds a slot; there are as many as EngineOptions::threads. The counts decide whether a
// ready operation needs another worker: a thread that queues one reads them, a thread that leaves lowers them and then
// looks at the queue, all sequentially consistent, so one of the two sees the other. Thread safety: any thread.
class Slots {
 public:
  explicit Slots(int count) : count_(count) {}

  int count() const noexcept { return count_; }
  bool take() noexcept;  // true: this thread may run operations until give()
  void give() noexcept { active_.fetch_sub(1, std::memory_order_seq_cst); }
  void take_beyond_count() noexcept { active_.fetch_add(1, std::memory_order_seq_cst); }  // on a serial engine
  bool are_all_taken() const noexcept { return active_.load(std::memory_order_seq_cst) >= count_; }

  // A worker that has been posted has a slot and counts as spinning from then on. Starting takes 20 us and more, so a
  // waiting thread may take the slot over. Whoever claims it owns it; the worker that finds it gone goes home.
  void post() noexcept;
  bool claim_posted() noexcept;
  bool take_over() noexcept;

  // Slots whose workers look for work.
  bool has_spinning() const noexcept { return spinning_.load(std::memory_order_seq_cst) > 0; }
  bool begin_spinning() noexcept { return spinning_.fetch_add(1, std::memory_order_seq_cst) == 0; }  // true: the first
  bool end_spinning() noexcept { return spinning_.fetch_sub(1, std::memory_order_seq_cst) == 1; }    // true: the last

  // Waiting threads without a slot that look for work.
  int spinning_waiters() const noexcept { return spinning_waiters_.load(std::memory_order_relaxed); }
  bool has_spinning_waiters() const noexcept { return spinning_waiters_.load(std::memory_order_seq_cst) > 0; }
  void begin_spinning_wait() noexcept { spinning_waiters_.fetch_add(1, std::memory_order_seq_cst); }
  bool end_spinning_wait() noexcept {  // true: the last
    return spinning_waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  }

  // Slots whose threads have run pieces of another thread's operation, and nothing since.
  void begin_helping() noexcept { helping_.fetch_add(1, std::memory_order_relaxed); }
  void end_helping() noexcept { helping_.fetch_sub(1, std::memory_order_relaxed); }
  // Slots that run something of their own. Those that help count as free: they finish in a moment. `caller_helps`: so
  // does the caller, who is busy.
  int busy(bool caller_helps) const noexcept;

  // Slots whose operations wait for memory, with no operation to help.
  void begin_starving(int slots) noexcept { starved_for_memory_.fetch_add(slots); }
  void end_starving(int slots) noexcept { starved_for_memory_.fetch_sub(slots); }
  bool others_may_free_memory() const noexcept {
    return active_.load() - spinning_.load() > starved_for_memory_.load();
  }

  // Slots that run operations.
  int running() const noexcept {
    return active_.load(std::memory_order_seq_cst) - spinning_.load(std::memory_order_seq_cst);
  }

 private:
  const int count_;
  alignas(64) std::atomic<int> active_{0};  // slots taken
  std::atomic<int> spinning_{0};            // of these: their workers look for work
  std::atomic<int> helping_{0};             // of these: they have run pieces of another's operation, and nothing since
  std::atomic<int> posted_workers_{0};      // of these: their workers have been posted and have not started yet
  std::atomic<int> starved_for_memory_{0};  // of these
  std::atomic<int> spinning_waiters_{0};
};

}  // namespace kaon::engine

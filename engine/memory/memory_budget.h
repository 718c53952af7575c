// MemoryBudget: how much memory the arrays of one part of a program may take, and whether its work is still wanted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

#include "kaon/engine/intrusive_ptr.h"

namespace kaon::engine {

// An array counts from the call that makes it, before it has memory, until its last user drops it, so pending arrays
// are bounded too. Budgets nest: an array counts in all of them. Made by EngineScope::with_budget and, for a whole
// engine, by EngineOptions::max_bytes; kept alive by the arrays and operations that they apply to. Thread safety: any
// thread.
class MemoryBudget : public RefCounted<MemoryBudget> {
 public:
  MemoryBudget(size_t bytes, const std::stop_token& stop, IntrusivePtr<MemoryBudget> outer);

  void take(size_t bytes) noexcept {
    for (MemoryBudget* b = this; b; b = b->outer_.get()) b->used_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void give(size_t bytes) noexcept {
    for (MemoryBudget* b = this; b; b = b->outer_.get()) {
      b->used_.fetch_sub(bytes, std::memory_order_seq_cst);
      if (b->waiters_.load(std::memory_order_seq_cst) > 0) [[unlikely]]
        b->notify();  // pairs with begin_wait, after which the waiter checks once more
    }
  }
  size_t used() const noexcept { return used_.load(std::memory_order_seq_cst); }

  bool has_room() const noexcept {
    for (const MemoryBudget* b = this; b; b = b->outer_.get()) {
      if (b->bytes_ && b->used() > b->bytes_) return false;
    }
    return true;
  }
  bool has_much_room() const noexcept;  // a quarter of every limit is free
  bool has_limit() const noexcept;

  // Told on any thread, which may hold locks, that bytes have been given back.
  class Listener {
   public:
    virtual void bytes_given_back() noexcept = 0;

   protected:
    ~Listener() = default;
  };
  // Between these two calls the listener is told. The waiters at one budget share one listener.
  void begin_wait(Listener& listener) noexcept;
  void end_wait() noexcept;

  // Stopped when this scope or an outer one is.
  const std::stop_token& stop_token() const noexcept { return stop_; }
  bool is_stopped() const noexcept { return stop_.stop_requested(); }

 private:
  struct Forward {
    mutable std::stop_source to;
    void operator()() const { to.request_stop(); }
  };
  void notify() noexcept;

  const size_t bytes_;  // 0: no limit
  const IntrusivePtr<MemoryBudget> outer_;
  std::stop_token stop_;
  std::optional<std::stop_callback<Forward>> from_inside_, from_outside_;
  std::atomic<size_t> used_{0};

  std::atomic<int> waiters_{0};     // between begin_wait and end_wait
  std::atomic<uint32_t> forks_{0};  // fork_count() at begin_wait: a forked child has none of the waiters
  std::mutex wait_mutex_;
  Listener* listener_ = nullptr;
};

}  // namespace kaon::engine

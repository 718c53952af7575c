// MemoryBudget: how much memory the arrays of one part of a program may take, and whether its work is still wanted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "kaon/engine/intrusive_ptr.h"

namespace kaon {

class Engine;

// An array counts from the call that makes it, before it has memory, until its last user drops it, so pending arrays
// are bounded too. MemoryBudget nest: an array counts in all of them. Made by EngineScope::with_budget and, for a whole
// engine, by EngineOptions::max_bytes; kept alive by the arrays and operations that they apply to. Thread safety: any
// thread.
class MemoryBudget : public RefCounted<MemoryBudget> {
 public:
  MemoryBudget(size_t bytes, const std::stop_token& stop, IntrusivePtr<MemoryBudget> outer)
      : bytes_(bytes), outer_(std::move(outer)) {
    const std::stop_token outside = outer_ ? outer_->stop_ : std::stop_token();
    if (stop.stop_possible() && outside.stop_possible()) {
      std::stop_source either;
      stop_ = either.get_token();
      from_inside_.emplace(stop, Forward{either});
      from_outside_.emplace(outside, Forward{either});
    } else {
      stop_ = stop.stop_possible() ? stop : outside;
    }
  }

  void take(size_t bytes) noexcept {
    for (MemoryBudget* l = this; l; l = l->outer_.get()) l->used_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void give(size_t bytes) noexcept {
    for (MemoryBudget* l = this; l; l = l->outer_.get()) {
      l->used_.fetch_sub(bytes, std::memory_order_seq_cst);
      if (l->waiters_.load(std::memory_order_seq_cst) > 0) [[unlikely]]
        l->call_engine();  // pairs with begin_wait, after which the waiter checks once more
    }
  }
  size_t used() const noexcept { return used_.load(std::memory_order_seq_cst); }

  bool has_room() const noexcept {
    for (const MemoryBudget* l = this; l; l = l->outer_.get()) {
      if (l->bytes_ && l->used() > l->bytes_) return false;
    }
    return true;
  }
  // A quarter of every limit is free.
  bool has_much_room() const noexcept {
    for (const MemoryBudget* l = this; l; l = l->outer_.get()) {
      if (l->bytes_ && l->used() > l->bytes_ - l->bytes_ / 4) return false;
    }
    return true;
  }
  bool has_limit() const noexcept {
    for (const MemoryBudget* l = this; l; l = l->outer_.get()) {
      if (l->bytes_) return true;
    }
    return false;
  }
  // Between these two calls, whenever bytes are given back, the engine resumes the waiters that have room.
  void begin_wait(Engine& engine) noexcept;
  void end_wait() noexcept;

  // Stopped when this scope or an outer one is.
  const std::stop_token& stop_token() const noexcept { return stop_; }
  bool is_stopped() const noexcept { return stop_.stop_requested(); }

 private:
  struct Forward {
    mutable std::stop_source to;
    void operator()() const { to.request_stop(); }
  };

  const size_t bytes_;  // 0: no limit
  const IntrusivePtr<MemoryBudget> outer_;
  std::stop_token stop_;
  std::optional<std::stop_callback<Forward>> from_inside_, from_outside_;
  std::atomic<size_t> used_{0};

  void call_engine() noexcept;
  std::atomic<int> waiters_{0};     // between begin_wait and end_wait
  std::atomic<uint32_t> forks_{0};  // g_forks at begin_wait: a forked child has none of the waiters
  std::mutex wait_mutex_;
  Engine* engine_ = nullptr;  // where they wait
};

}  // namespace kaon

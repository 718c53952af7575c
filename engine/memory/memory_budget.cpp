#include "kaon/engine/memory/memory_budget.h"

#include <utility>

#include "kaon/engine/base/process_wide.h"

namespace kaon::engine {

MemoryBudget::MemoryBudget(size_t bytes, const std::stop_token& stop, IntrusivePtr<MemoryBudget> outer)
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

bool MemoryBudget::has_much_room() const noexcept {
  for (const MemoryBudget* b = this; b; b = b->outer_.get()) {
    if (b->bytes_ && b->used() > b->bytes_ - b->bytes_ / 4) return false;
  }
  return true;
}

bool MemoryBudget::has_limit() const noexcept {
  for (const MemoryBudget* b = this; b; b = b->outer_.get()) {
    if (b->bytes_) return true;
  }
  return false;
}

void MemoryBudget::begin_wait(Listener& listener) noexcept {
  for (MemoryBudget* b = this; b; b = b->outer_.get()) {
    std::lock_guard lock(b->wait_mutex_);
    b->listener_ = &listener;
    b->forks_.store(fork_count(), std::memory_order_relaxed);
    b->waiters_.fetch_add(1, std::memory_order_seq_cst);
  }
}

void MemoryBudget::end_wait() noexcept {
  for (MemoryBudget* b = this; b; b = b->outer_.get()) {
    std::lock_guard lock(b->wait_mutex_);
    b->waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void MemoryBudget::notify() noexcept {
  // in a forked child a thread that does not exist there may hold the mutex
  if (forks_.load(std::memory_order_relaxed) != fork_count()) return;
  std::lock_guard lock(wait_mutex_);
  // while it has waiters the listener lives, and they need this mutex to end their wait
  if (waiters_.load(std::memory_order_seq_cst) > 0) listener_->bytes_given_back();
}

}  // namespace kaon::engine

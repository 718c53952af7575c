// Var: the dependency of operators on memory. One per block of memory.
#pragma once

#include <cstdint>
#include <utility>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/operation.h"

namespace kaon::engine {

// Prefetches the operation that contains an access: the cache lines of its block around it.
inline void fetch_operation(const Dep* d) noexcept {
  constexpr int64_t line = 64;
  for (int64_t at = -line; at <= 2 * line; at += line) prefetch_for_write(reinterpret_cast<const char*>(d) + at);
}

// How it works. A var is a fair reader-writer lock whose waiters are ops, not threads. Readers run together, a
// writer runs alone, and accesses are granted in the order of arrival, so conflicting ops run in push order. An op
// locks all its vars (sorted by address), appends itself to each, and unlocks them: it enters atomically, so two
// pushing threads cannot queue up in opposite orders on two vars. Each grant lowers the op's count of pending
// grants; at zero it is ready. Completion releases one var at a time and returns the accesses that this grants.
//
// Thread safety: as documented per function. A Var must outlive the ops pushed on it.
class Var {
 public:
  Var() = default;
  Var(const Var&) = delete;
  Var& operator=(const Var&) = delete;
  ~Var() {
    if (error_) error_->release();
  }

  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

  // Queues the access. True when it is granted at once. The caller holds the lock.
  bool append(Dep& d) noexcept {
    if (!tail_ && (d.is_write() ? active_ == 0 : active_ >= 0)) {
      active_ = d.is_write() ? -1 : active_ + 1;
      return true;
    }
    (tail_ ? tail_->next : head_) = &d;
    tail_ = &d;
    return false;
  }

  // Begins to read when no write is running or queued and the last one has not failed. Locks itself.
  bool try_begin_read() noexcept {
    lock();
    const bool begins = is_readable() && !error_;
    if (begins) ++active_;
    unlock();
    return begins;
  }

  // The var's very first access, a write, while no other thread knows the var: granted without a lock.
  void begin_first_write() noexcept { active_ = -1; }

  // Ends a granted access. Returns the list (by `next`) of accesses granted by that. Locks itself.
  Dep* complete(const Dep& d) noexcept {
    lock();
    if (d.is_write()) {
      active_ = 0;
      if (derived_ != PackedState::none) derived_ = PackedState::outdated;
    } else {
      --active_;
    }
    Dep* granted = grant();
    if (tail_) fetch_operation(head_);  // the next to be granted is in the cache of the core that pushed it
    unlock();
    return granted;
  }

  // Removes a waiting access from the queue; `granted` gets the accesses that this grants. False: it is not queued
  // here. Locks itself, and sets `mark` under the lock.
  bool remove(const Dep& d, Dep*& granted, bool& mark) noexcept {
    lock();
    mark = true;
    Dep* before = nullptr;
    Dep* at = tail_ ? head_ : nullptr;
    while (at && at != &d) before = std::exchange(at, at->next);
    if (at) {
      (before ? before->next : head_) = at->next;
      if (at == tail_) tail_ = before;
      granted = grant();
    }
    unlock();
    return at != nullptr;
  }

  // Reads that last over many operations (engine/operation/shared_read_lease.h). The caller holds the lock.
  bool can_begin_read_lease() const noexcept { return is_readable() && !error_ && num_leases_ < UINT8_MAX; }
  void begin_read_lease() noexcept { ++active_, ++num_leases_; }
  bool has_read_leases() const noexcept { return num_leases_ != 0; }
  // Ends a shared read lease. Locks itself, and returns the accesses that this grants.
  Dep* end_read_lease() noexcept {
    lock();
    --active_, --num_leases_;
    Dep* granted = grant();
    unlock();
    return granted;
  }

  // No write is running or queued. The caller holds the lock.
  bool is_readable() const noexcept { return active_ >= 0 && !tail_; }
  // Nothing is running or queued. The caller holds the lock.
  bool is_idle() const noexcept { return active_ == 0 && !tail_; }

  // Whether anything is derived from the memory (engine/buffer/packed_cache.h): from its values now (holds), from
  // earlier ones (outdated). Operations that hold a read grant read and set it under a lock of their own; a write
  // outdates it.
  enum class PackedState : uint8_t { none, outdated, holds };
  PackedState packed_state() const noexcept { return derived_; }
  void set_packed() noexcept { derived_ = PackedState::holds; }

  // The failure of the last write, if any. The caller holds the lock while readable, or a grant.
  const OpError* error() const noexcept { return error_; }
  // Takes a reference. The caller holds a write grant.
  void set_error(const OpError* e) noexcept {
    if (e) e->retain();
    if (error_) error_->release();
    error_ = e;
  }

 private:
  // Grants the writer in front, or all readers in front.
  Dep* grant() noexcept {
    if (!tail_ || active_ < 0) return nullptr;
    Dep* last = head_;
    if (last->is_write()) {
      if (active_ > 0) return nullptr;
      active_ = -1;
      return take_front(last);
    }
    ++active_;
    while (last != tail_ && !last->next->is_write()) {
      last = last->next;
      ++active_;
    }
    return take_front(last);
  }

  // Removes the queue's front up to `last` and returns it.
  Dep* take_front(Dep* last) noexcept {
    Dep* first = head_;
    head_ = last->next;
    if (last == tail_) tail_ = nullptr;
    last->next = nullptr;
    return first;
  }

  SpinLock lock_;
  PackedState derived_ = PackedState::none;
  uint8_t num_leases_ = 0;  // shared read leases among the running readers
  int32_t active_ = 0;      // -1: one writer runs; n: n readers run
  Dep* head_ = nullptr;     // meaningless while tail_ is null
  Dep* tail_ = nullptr;
  const OpError* error_ = nullptr;
};

static_assert(sizeof(Var) == 32);

}  // namespace kaon::engine

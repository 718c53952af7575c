// The queue of ready operations: a bounded ring with a list behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kaon/engine/operation.h"

namespace kaon::engine {

// First in, first out (Vyukov's bounded queue of many producers and consumers: each cell carries the turn in which
// it may be used). Pushing never fails and allocates nothing: operations that do not fit go to a locked list, which
// happens only when Tasks overshoot the in-flight limit. Thread safety: any thread.
class ReadyQueue {
 public:
  explicit ReadyQueue(size_t capacity_log2) : mask_((size_t(1) << capacity_log2) - 1), cells_(new Cell[mask_ + 1]) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  void push(OpNode& op) noexcept {
    if (spilled_.load(std::memory_order_relaxed) == 0 && try_push(op)) return;
    std::lock_guard lock(spill_mutex_);
    op.next = nullptr;
    (spill_last_ ? spill_last_->next : spill_first_) = &op;
    spill_last_ = &op;
    spilled_.fetch_add(1, std::memory_order_seq_cst);  // pairs with is_empty in a worker that is leaving
  }

  OpNode* pop() noexcept {
    size_t at = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      size_t turn = cell.turn.load(std::memory_order_acquire);  // pairs with the producer's release
      auto lag = intptr_t(turn) - intptr_t(at + 1);
      if (lag == 0) {
        if (head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          OpNode* op = cell.op;
          cell.turn.store(at + mask_ + 1, std::memory_order_release);
          return op;
        }
      } else if (lag < 0) {
        return spilled_.load(std::memory_order_relaxed) ? pop_spilled() : nullptr;
      } else {
        at = head_.load(std::memory_order_relaxed);
      }
    }
  }

  bool is_empty() const noexcept {
    return head_.load(std::memory_order_seq_cst) >= tail_.load(std::memory_order_seq_cst) &&
           spilled_.load(std::memory_order_seq_cst) == 0;
  }

 private:
  struct Cell {
    std::atomic<size_t> turn;
    OpNode* op;
  };

  bool try_push(OpNode& op) noexcept {
    size_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      size_t turn = cell.turn.load(std::memory_order_acquire);  // pairs with the consumer's release
      auto lag = intptr_t(turn) - intptr_t(at);
      if (lag == 0) {
        // seq_cst: a worker that is leaving looks at tail_ after giving up its slot
        if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
          cell.op = &op;
          cell.turn.store(at + 1, std::memory_order_release);
          return true;
        }
      } else if (lag < 0) {
        return false;
      } else {
        at = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  OpNode* pop_spilled() noexcept {
    std::lock_guard lock(spill_mutex_);
    OpBase* const op = spill_first_;
    if (!op) return nullptr;
    spill_first_ = op->next;
    if (!spill_first_) spill_last_ = nullptr;
    spilled_.fetch_sub(1, std::memory_order_seq_cst);
    return static_cast<OpNode*>(op);
  }

  size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> spilled_{0};
  std::mutex spill_mutex_;
  OpBase* spill_first_ = nullptr;
  OpBase* spill_last_ = nullptr;
};

}  // namespace kaon::engine

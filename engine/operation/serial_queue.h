// SerialQueue: operations that run one after another, because each would wait for a lock that the one before holds.
#pragma once

#include <thread>

#include "kaon/engine/operation/ready_queue.h"

namespace kaon::engine {

// The thread that runs one of them continues with those that became ready during it. Thread safety: any thread.
class SerialQueue {
 public:
  // Adds a ready operation. True: no thread runs this queue, and the caller must run take().
  bool enter(OpNode& op) noexcept {
    ready_[size_t(op.priority)].push(op);
    return count_.fetch_add(1, std::memory_order_acq_rel) == 0;
  }
  // The next operation. Called after an enter() that gave true, and by leave().
  OpNode& take() noexcept {
    for (;;) {
      for (ReadyQueue& queue : ready_) {
        if (OpNode* op = queue.pop()) return *op;
      }
      std::this_thread::yield();  // one is queued behind another whose push is not complete
    }
  }
  // After an operation has run: the next one, or nullptr.
  OpNode* leave() noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) > 1 ? &take() : nullptr; }

 private:
  static constexpr size_t log2_of_usual = 6;  // operations; more take a little longer
  ReadyQueue ready_[3]{ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual)};
  alignas(64) std::atomic<size_t> count_{0};  // operations that are ready or run
};

}  // namespace kaon::engine

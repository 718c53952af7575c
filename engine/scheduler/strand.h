// Strand: operations that are run one after another, because each would wait for the lock of the one before.
#pragma once

#include <thread>

#include "kaon/engine/scheduler/ready_queue.h"

namespace kaon {

// Whoever runs one of them goes on with those that have become ready meanwhile. Thread safety: any thread.
class Strand {
 public:
  // An operation is ready. True: nobody is at work here, and the caller sees to it that take() is run.
  bool enter(OpNode& op) noexcept {
    ready_[size_t(op.priority)].push(op);
    return count_.fetch_add(1, std::memory_order_acq_rel) == 0;
  }
  // By whom enter() has told to, and by leave().
  OpNode& take() noexcept {
    for (;;) {
      for (ReadyQueue& queue : ready_) {
        if (OpNode* op = queue.pop()) return *op;
      }
      std::this_thread::yield();  // one is there, behind another that is being put
    }
  }
  // One has been run. The next one, if there is one.
  OpNode* leave() noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) > 1 ? &take() : nullptr; }

 private:
  static constexpr size_t log2_of_usual = 6;  // operations; more take a little longer
  ReadyQueue ready_[3]{ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual)};
  alignas(64) std::atomic<size_t> count_{0};  // that are ready or run
};

}  // namespace kaon

// ReadyOps: the operations that may run now, in the order in which they shall.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "kaon/engine/operation/random_scheduler.h"
#include "kaon/engine/operation/ready_queue.h"
#include "kaon/engine/operation/serial_queue.h"

namespace kaon::engine {

// By arrival in one queue for each priority, or as a RandomScheduler says. Thread safety: any thread.
class ReadyOps {
 public:
  // Throws IoError or ValueError for a schedule's file. `threads`: how many run operations.
  ReadyOps(int threads, const Schedule& schedule);

  // Adds an operation. False: no thread need come for it, since its serial queue has one or the schedule decides.
  bool add(OpNode& op) noexcept;
  void add_to_queue(OpNode& op) noexcept { by_priority_[size_t(op.priority)].push(op); }  // next on its serial queue
  OpNode* pop() noexcept;                                                                 // nullptr: none
  OpNode* pop_before(Priority priority) noexcept;                                         // one of a higher class
  bool is_empty() const noexcept;

  void note_priority(Priority priority) noexcept {  // called at each push
    if (priority != Priority::normal) uses_priorities_.store(true, std::memory_order_relaxed);
  }
  bool uses_priorities() const noexcept { return uses_priorities_.load(std::memory_order_relaxed); }
  SerialQueue* serial_queue_of(const OpNode& op) noexcept {
    return op.type->serial_queue ? find_serial_queue(op) : nullptr;
  }
  RandomScheduler* chosen() const noexcept { return chosen_.get(); }  // nullptr: by arrival

 private:
  SerialQueue* find_serial_queue(const OpNode& op) noexcept;

  ReadyQueue by_priority_[3];
  std::array<SerialQueue, 8> serial_queues_;  // launches on GPUs
  const std::unique_ptr<RandomScheduler> chosen_;
  const bool has_several_threads_;
  std::atomic<bool> uses_priorities_{false};
};

}  // namespace kaon::engine

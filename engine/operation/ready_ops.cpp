#include "kaon/engine/operation/ready_ops.h"

namespace kaon::engine {
namespace {
constexpr size_t log2_of_usual = 13;  // operations; more take a little longer
}

ReadyOps::ReadyOps(int threads, const Schedule& schedule)
    : by_priority_{ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual), ReadyQueue(log2_of_usual)},
      chosen_(schedule.kind == Schedule::Kind::arrival ? nullptr : new RandomScheduler(schedule)),
      has_several_threads_(threads > 1) {}

bool ReadyOps::add(OpNode& op) noexcept {
  if (chosen_) [[unlikely]] {
    chosen_->add(op);
    return false;
  }
  if (SerialQueue* const serial = serial_queue_of(op)) [[unlikely]] {
    if (!serial->enter(op)) return false;
    add_to_queue(serial->take());
  } else {
    add_to_queue(op);
  }
  return true;
}

OpNode* ReadyOps::pop() noexcept {
  if (chosen_) [[unlikely]]
    return chosen_->pick();
  if (uses_priorities()) {
    for (ReadyQueue& queue : by_priority_) {
      if (OpNode* op = queue.pop()) return op;
    }
    return nullptr;
  }
  return by_priority_[size_t(Priority::normal)].pop();
}

OpNode* ReadyOps::pop_before(Priority priority) noexcept {
  for (size_t p = 0; p < size_t(priority); ++p) {
    if (OpNode* higher = by_priority_[p].pop()) return higher;
  }
  return nullptr;
}

bool ReadyOps::is_empty() const noexcept {
  if (chosen_) [[unlikely]]
    return chosen_->is_empty();
  return by_priority_[0].is_empty() && by_priority_[1].is_empty() && by_priority_[2].is_empty();
}

SerialQueue* ReadyOps::find_serial_queue(const OpNode& op) noexcept {
  if (!has_several_threads_ || chosen_) return nullptr;
  return &serial_queues_[op.type->serial_queue(op) % serial_queues_.size()];
}

}  // namespace kaon::engine

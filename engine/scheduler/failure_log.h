// FailureLog: the records of an engine's failed operations.
#pragma once

#include <mutex>

#include "kaon/engine/scheduler/op_node.h"

namespace kaon {

// Makes the record that travels with a failed array, and keeps those that no wait has reported yet.
//
// Nothing here throws, since an operation that fails for want of memory must be settled as any other. What cannot be
// made is left out, in this order: the text, the list of several causes, the record itself; then the array gets one of
// two that were made with the log, which say that there was no memory to say more. Thread safety: any thread.
class FailureLog {
 public:
  FailureLog();
  ~FailureLog();
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  // Of an operation that has thrown `why`. `is_reported`: whoever waits for everything is not told.
  IntrusivePtr<const OpError> record(const OpNode& op, std::exception_ptr why, bool is_reported) noexcept;
  // Of one that never ran, because its scope was stopped.
  IntrusivePtr<const OpError> record_dropped(const OpNode& op) noexcept;
  // Of one whose inputs have failed: their causes. Null when only what it overwrites has failed; `heals` says whether
  // some of that has.
  static IntrusivePtr<const OpError> inherit(const OpNode& op, bool& heals) noexcept;

  // An AggregateError of all that no wait has reported, which are reported now; null: there are none. Throws
  // std::bad_alloc, and has changed nothing then.
  std::exception_ptr take_unreported();

 private:
  void add(const OpError& error) noexcept;
  void prune() noexcept;  // takes out what has been reported; under the mutex

  std::mutex mutex_;
  const OpError* first_ = nullptr;  // unreported, by OpError::next; each counted
  size_t count_ = 0;
  size_t prune_at_ = 64;  // a program that only ever waits for its arrays keeps no failures of the past
  IntrusivePtr<const OpError> no_memory_, dropped_;  // where there is no memory for a record
  std::exception_ptr bad_alloc_;
};

}  // namespace kaon

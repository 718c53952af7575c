// FailureLog: error records of an engine's failed operations.
#pragma once

#include <mutex>

#include "kaon/engine/operation.h"

namespace kaon::engine {

// Creates the error record that a failed array stores, and lists the records that no wait has reported yet.
//
// Recording must not throw: an operation that fails with out-of-memory still completes and releases its successors. If
// an allocation fails here, the record degrades step by step: first it lacks the message text, then the list of causes
// is reduced to the first cause, and finally the array gets one of two records preallocated in the constructor, whose
// text says that memory was exhausted. Thread safety: any thread.
class FailureLog {
 public:
  FailureLog();
  ~FailureLog();
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  // For an operation that threw `why`. With `is_reported`, take_unreported() does not return the record.
  IntrusivePtr<const OpError> record(const OpNode& op, std::exception_ptr why, bool is_reported) noexcept;
  // For an operation that was skipped because its scope was stopped.
  IntrusivePtr<const OpError> record_dropped(const OpNode& op) noexcept;
  // For an operation with failed inputs: a record of their causes. Null if no input has failed. Sets `heals` if an
  // array that the operation overwrites has failed; the overwrite then clears that error.
  static IntrusivePtr<const OpError> inherit(const OpNode& op, bool& heals) noexcept;

  // An AggregateError of all unreported records, which it marks as reported; null if there are none. Strong guarantee:
  // if it throws std::bad_alloc, every record is still unreported.
  std::exception_ptr take_unreported();

 private:
  void add(const OpError& error) noexcept;
  void prune() noexcept;  // removes reported records; requires the mutex

  std::mutex mutex_;
  const OpError* first_ = nullptr;  // list of unreported records, linked by OpError::next; owns a reference to each
  size_t count_ = 0;
  size_t prune_at_ = 64;  // list length that triggers prune(): bounds the list if wait_all() is never called
  IntrusivePtr<const OpError> no_memory_, dropped_;  // preallocated records, used when allocating one fails
  std::exception_ptr bad_alloc_;
};

}  // namespace kaon::engine

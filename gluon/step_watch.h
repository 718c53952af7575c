// StepWatch: finds out, without waiting, whether the gradients that a step read have failed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kaon/ops/ndarray.h"

namespace kaon::gluon {

// Waits behind the writes of some arrays as a reader, without a thread and without an operation. Thread safety: one
// thread; it may be destroyed while it waits.
class StepWatch {
 public:
  explicit StepWatch(std::span<const NDArray> arrays);
  ~StepWatch();
  StepWatch(StepWatch&&) noexcept;
  StepWatch& operator=(StepWatch&&) noexcept;

  bool is_done() const;  // all arrays are computed or have failed
  // The failure that was pushed first; null when there is none. Call it when done.
  IntrusivePtr<const OpError> error() const;

 private:
  struct Shared;
  IntrusivePtr<Shared> shared_;
};

}  // namespace kaon::gluon

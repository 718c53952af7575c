// Memory of a plan does not count in the program's limits.
#pragma once

#include <utility>

#include "kaon/engine/engine.h"

namespace kaon {

// While it exists, no limit counts the arrays and memory that this thread makes, which outlive the present scope.
class OutsideLimits {
 public:
  OutsideLimits() : caller_(std::exchange(thread_context().limits, nullptr)) {}
  ~OutsideLimits() { thread_context().limits = caller_; }
  OutsideLimits(const OutsideLimits&) = delete;
  OutsideLimits& operator=(const OutsideLimits&) = delete;

 private:
  Limits* const caller_;
};

}  // namespace kaon

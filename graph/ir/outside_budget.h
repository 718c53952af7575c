// Memory of a plan does not count in the program's budget.
#pragma once

#include <utility>

#include "kaon/engine/engine.h"

namespace kaon::graph {

// While it exists, no limit counts the arrays and memory that this thread makes, which outlive the present scope.
class OutsideBudget {
 public:
  OutsideBudget() : caller_(std::exchange(thread_context().budget, nullptr)) {}
  ~OutsideBudget() { thread_context().budget = caller_; }
  OutsideBudget(const OutsideBudget&) = delete;
  OutsideBudget& operator=(const OutsideBudget&) = delete;

 private:
  MemoryBudget* const caller_;
};

}  // namespace kaon::graph

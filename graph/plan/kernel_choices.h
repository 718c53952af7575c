// KernelChoices: what the kernels of a plan chose when they first ran, for PlanReport.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/graph/plan/plan_steps.h"

namespace kaon::graph {

class PlanRun;

// Owns copies of the names. Only get() can fail, for want of memory. Thread safety: any thread.
class KernelChoices {
 public:
  // Of a phase.
  struct Choices {
    std::vector<std::string> implementations;  // by step; empty where a kernel has only one
    int reorders = 0;                          // inside kernels
  };

  // pairs with nothing: a run that sees an old value looks again, under the lock
  bool are_known(Phase phase) const { return are_known_[size_t(phase)].load(std::memory_order_relaxed); }
  // Notes the choices of a run, which has just ended, if none are known. A lack of memory leaves that to a later run.
  void note(const PlanSteps& steps, Phase phase, const PlanRun& run) noexcept;
  // Null before the first run.
  std::optional<Choices> get(Phase phase) const;

 private:
  std::atomic<bool> are_known_[2] = {false, false};
  mutable SpinLock lock_;
  Choices choices_[2];  // guarded by lock_
};

}  // namespace kaon::graph

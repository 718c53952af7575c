// CapturePlan: which arrays of a call the captured graph of a phase works on, and the launch of that graph.
#pragma once

#include <atomic>
#include <vector>

#include "kaon/graph/plan/plan_steps.h"

namespace kaon::graph {

class PlanRun;

// Each run has its own captured graphs (PlanCapture); this is what they have in common. A phase is captured on a GPU
// when addresses recur and neither random numbers nor the number of rows differ from run to run. Owns the list of the
// arrays; the steps are the plan's and live as long as that. Thread safety: any thread, one operation for each run.
class CapturePlan {
 public:
  CapturePlan(const PlanSteps& steps, Phase phase);

  bool is_on() const { return is_on_; }
  // Launches the work of work(context), the steps of the phase, as one graph. False: nothing is launched, and the
  // caller launches step by step. `work` may have been called for a capture that failed; its error is
  // dropped, since step by step the work succeeds or throws it again. Throws DeviceError when the launch fails.
  bool launch(PlanRun& run, RunContext& context, FunctionRef<void(RunContext&)> work) const;
  // Runs that were launched as one graph.
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }

 private:
  // An array of the call, whatever the number of its views.
  struct Array {
    Place place;
    uint32_t index;
    uint32_t view;  // one of them
    bool is_read, is_written;
  };

  const PlanSteps& steps_;
  const Phase phase_;
  bool is_on_ = false;
  std::vector<Array> arrays_;
  std::vector<uint32_t> array_of_;  // by external of the phase
  mutable std::atomic<uint64_t> launches_{0};
};

}  // namespace kaon::graph

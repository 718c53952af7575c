// Failures of a plan: naming the operator, and restoring the arrays that it updates in place.
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "kaon/graph/plan/execution_plan.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon {

// The last step of a half either fails before it has written anything or ends the half, so only arrays that earlier
// steps update need a copy. Optimizers are last; the others are running statistics, which are small. On a GPU launches
// seldom fail, and the host cannot undo launched work.
void ExecutionPlan::find_saved() {
  if (!mutates_ || options_.device.type != DeviceType::cpu) return;
  std::vector<Step>& steps = phases_[size_t(Phase::forward)].steps;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    Step& s = steps[i];
    if (!s.updates) continue;
    s.first_saved = uint32_t(saved_.size());
    for (uint32_t k = 0; k < s.num_inputs; ++k) {
      if (!is_mutated(s.node->op->traits, int(k), int(s.num_inputs))) continue;
      const TensorView& v = views_[s.first_view + k];
      const size_t bytes = size_t(v.size()) * size_of(v.dtype);
      saved_.push_back({s.first_view + k, bytes, saved_bytes_});
      saved_bytes_ += bytes;
    }
    s.num_saved = uint32_t(saved_.size()) - s.first_saved;
  }
}

void ExecutionPlan::save(const Step& step, PlanRun& run) const noexcept {
  for (uint32_t i = 0; i < step.num_saved; ++i) {
    const Saved& s = saved_[step.first_saved + i];
    if (s.bytes) std::memcpy(run.saved.data() + s.offset, run.views[s.view].data, s.bytes);
  }
  run.num_saved += step.num_saved;
}

// In reverse order, so that an array that was updated twice gets its first values.
void ExecutionPlan::restore(PlanRun& run) const noexcept {
  while (run.num_saved > 0) {
    const Saved& s = saved_[--run.num_saved];
    if (s.bytes) std::memcpy(run.views[s.view].data, run.saved.data() + s.offset, s.bytes);
  }
}

std::exception_ptr ExecutionPlan::failure_of(const Step& step, const PlanRun& run,
                                             const std::exception_ptr& why) const noexcept {
  try {
    std::vector<TensorMeta> metas;
    for (uint32_t i = 0; i < step.num_inputs + step.num_outputs; ++i) {
      const TensorView& v = run.views[step.first_view + i];
      metas.push_back({v.shape, v.dtype});
    }
    const std::span<const TensorMeta> all(metas);
    return add_context(why, describe_arrays(all.first(step.num_inputs), all.subspan(step.num_inputs)) +
                                fmt::format(" in node {} ({})", step.node->name, step.node->op->name()));
  } catch (const std::bad_alloc&) {
    return why;
  }
}

}  // namespace kaon

#include "kaon/graph/plan/kernel_choices.h"

#include <mutex>
#include <new>
#include <utility>

#include "kaon/graph/plan/plan_run.h"

namespace kaon::graph {

void KernelChoices::note(const PlanSteps& steps, Phase phase, const PlanRun& run) noexcept {
  std::lock_guard lock(lock_);
  if (are_known(phase)) return;
  // Results and updates are there: a lack of memory must not fail them. The next run notes it.
  try {
    Choices made;
    for (const PlanSteps::Step& s : steps.phase(phase).steps) {
      const KernelState* state = run.states[s.state].get();
      made.implementations.push_back(state ? state->implementation() : std::string());
      made.reorders += state ? state->reorders() : 0;
    }
    choices_[size_t(phase)] = std::move(made);
  } catch (const std::bad_alloc&) {
    return;
  }
  are_known_[size_t(phase)].store(true, std::memory_order_relaxed);  // orders nothing: the rest is read under the lock
}

std::optional<KernelChoices::Choices> KernelChoices::get(Phase phase) const {
  std::lock_guard lock(lock_);
  if (!are_known(phase)) return std::nullopt;
  return choices_[size_t(phase)];
}

}  // namespace kaon::graph

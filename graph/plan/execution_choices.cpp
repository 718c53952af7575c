// A report of the choices of a plan's kernels.
#include <fmt/format.h>

#include <mutex>

#include "kaon/graph/plan/execution_plan.h"
#include "kaon/graph/plan_ops/reorder.h"

namespace kaon {

void ExecutionPlan::note_choices(Phase phase, const PlanRun& run) const noexcept {
  std::lock_guard lock(lock_);
  Choices& choices = choices_[size_t(phase)];
  if (choices.are_known.load(std::memory_order_relaxed)) return;
  // Results and updates are there: a lack of memory must not fail them. The next run notes it.
  try {
    std::vector<std::string> implementations;
    int reorders = 0;
    for (const Step& s : phases_[size_t(phase)].steps) {
      const KernelState* state = run.states[s.state].get();
      implementations.push_back(state ? state->implementation() : std::string());
      reorders += state ? state->reorders() : 0;
    }
    choices.implementations = std::move(implementations);
    choices.reorders = reorders;
  } catch (const std::bad_alloc&) {
    return;
  }
  choices.are_known.store(true, std::memory_order_relaxed);  // orders nothing: the rest is read under the lock
}

std::string ExecutionPlan::implementations() const {
  std::string text = "--- implementations\n";
  size_t operators = 0, reorders = 0, inside = 0;
  std::lock_guard lock(lock_);
  for (size_t phase = 0; phase < 2; ++phase) {
    const Choices& choices = choices_[phase];
    inside += size_t(choices.reorders);
    operators += phases_[phase].steps.size();
    for (size_t i = 0; i < phases_[phase].steps.size(); ++i) {
      const Node& n = *phases_[phase].steps[i].node;
      if (n.op == &Reorder::def) ++reorders;
      const bool known = choices.are_known.load(std::memory_order_relaxed);  // pairs with nothing: under the lock
      const std::string_view chosen = !known ? "not run yet"
                                      : choices.implementations[i].empty()
                                          ? "own"
                                          : std::string_view(choices.implementations[i]);
      text += fmt::format("{} ({}): {}\n", n.name, n.op->name(), chosen);
    }
  }
  text += fmt::format("{} operators, {} reorders of images, {} more inside kernels\n", operators, reorders, inside);
  if (options_.device.type == DeviceType::cpu) return text;
  return text + fmt::format("{} runs launched as one graph each\n", graph_launches());
}

}  // namespace kaon

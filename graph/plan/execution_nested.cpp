// Plans inside of an operator: the body of a loop, the branch of a condition.
#include "kaon/graph/plan/execution_plan.h"

namespace kaon {

std::unique_ptr<PlanRun> ExecutionPlan::make_nested_run() const {
  auto run = std::make_unique<PlanRun>();
  run->number = 0;
  run->views = views_;
  run->sources = sources_;
  run->states.resize(num_states_);
  return run;
}

void ExecutionPlan::run_nested(PlanRun& run, void* arena, std::span<void* const> inputs, std::span<void* const> outputs,
                               std::span<const Source> sources, const RandomKey& key, RunContext& context) const {
  place(run, arena);
  const PhasePlan& half = phases_[size_t(Phase::forward)];
  for (const External& e : half.externals) {
    const bool is_input = e.place == Place::input;
    run.views[e.view].data = is_input ? inputs[e.index] : outputs[e.index];
    if (!run.sources.empty()) run.sources[e.view] = is_input && !sources.empty() ? sources[e.index] : Source();
  }
  Profiler& profiler = Engine::current().profiler();
  const Step* step = nullptr;
  try {
    for (const Step& s : half.steps) {
      step = &s;
      run_step(s, run, key, context, profiler);
    }
  } catch (...) {
    std::rethrow_exception(failure_of(*step, run, std::current_exception()));
  }
}

}  // namespace kaon

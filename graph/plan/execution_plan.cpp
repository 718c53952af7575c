#include "kaon/graph/plan/execution_plan.h"

#include <climits>
#include <mutex>
#include <utility>

#include "kaon/graph/plan/plan_call.h"
#include "kaon/graph/plan_ops/pad_rows.h"
#include "kaon/ops/random_state.h"

namespace kaon::graph {

ExecutionPlan::ExecutionPlan(Graph graph, const PlanOptions& options, std::optional<MemoryPlan> memory)
    : steps_(std::move(graph), options, std::move(memory)),
      arenas_(options.arenas ? options.arenas : IntrusivePtr<PlanArenas>(new PlanArenas)),
      to_verify_(options.verify),
      captures_{{steps_, Phase::forward}, {steps_, Phase::backward}},
      parameters_(steps_.parameters) {}

void ExecutionPlan::make_arrays(size_t first, Device device, std::span<NDArray> arrays, int64_t rows) const {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].defined()) continue;
    const ValueId v = graph().outputs[first + i];
    TensorMeta m = graph().meta(v);
    if (options().padded && graph().nodes[v.node].op == &op::TakeRows::def) m.shape[0] = rows;
    arrays[i] = NDArray::empty(m.shape, m.dtype, device);
  }
}

PlanRun& ExecutionPlan::acquire() {
  const size_t number = arenas_->lease(Engine::current(), options().device, memory().arena_bytes);
  try {
    std::lock_guard lock(lock_);
    if (runs_.size() <= number) runs_.resize(number + 1);
    if (!runs_[number]) runs_[number] = std::make_unique<PlanRun>(steps_, number, arenas_->buffer(number));
    return *runs_[number];
  } catch (...) {
    arenas_->end_lease(number);
    throw;
  }
}

void ExecutionPlan::end_lease(PlanRun& run) {
  if (run.shadow) run.shadow = nullptr;
  arenas_->end_lease(run.number);
  give_back_unused(run);  // of a recorded forward without a backward
}

void ExecutionPlan::give_back_unused(const PlanRun& run) {
  if (!options().keep_arenas) arenas_->give_back_unused(run.number);
}

std::unique_ptr<PlanRun> ExecutionPlan::make_nested_run() const {
  return std::make_unique<PlanRun>(steps_, 0, IntrusivePtr<Buffer>());
}

void ExecutionPlan::push_leased(const PlanSubmission& s, const OpLabel& label) {
  try {
    PlanCall::push(*this, s, label);
  } catch (...) {
    end_lease(s.run);
    throw;
  }
}

PlanRun& ExecutionPlan::forward(std::span<const NDArray* const> inputs, std::span<NDArray> outputs,
                                const OpLabel& label, bool lease, IntrusivePtr<Shadow> shadow,
                                const RandomKey* numbers) {
  make_arrays(0, inputs.empty() ? Device() : inputs[0]->device(), outputs,
              options().padded ? inputs[0]->shape()[0] : 0);
  RandomKey key = numbers ? *numbers : steps_.random_numbers ? random::draw(steps_.random_numbers) : RandomKey{};
  IntrusivePtr<ParameterLease> parameters = lease ? IntrusivePtr<ParameterLease>() : parameters_.lease(inputs);
  PlanRun& run = acquire();
  if (lease) run.key = key, run.shadow = shadow;  // else the run is not written to: a worker reads it
  PlanSubmission submission{.run = run,
                            .phase = Phase::forward,
                            .inputs = inputs,
                            .results = outputs,
                            .key = key,
                            .shadow = std::move(shadow),
                            .is_last = !lease,
                            .parameters = std::move(parameters)};
  if (steps_.stretches.empty() || submission.shadow) {  // which follows the whole
    push_leased(submission, label);
  } else {
    for (const PlanSteps::Stretch& stretch : steps_.stretches) {
      submission.stretch = &stretch;
      submission.is_last = !lease && stretch.is_last;
      push_leased(submission, label);
    }
  }
  if (!lease) end_lease(run);
  return run;
}

void ExecutionPlan::backward(PlanRun& run, std::span<const NDArray* const> arrays, std::span<const NDArray> outputs,
                             std::span<NDArray> results, const OpLabel& label, bool retain) {
  make_arrays(graph().num_forward_outputs, arrays.back()->device(), results);
  // The backward reuses the memory of the saved values: with `retain` it runs on a copy of the arena.
  PlanRun& own = retain ? acquire() : run;
  const PlanSubmission submission{.run = own,
                                  .phase = Phase::backward,
                                  .inputs = arrays,
                                  .forward_outputs = outputs,
                                  .results = results,
                                  .saved = retain ? run.arena : IntrusivePtr<Buffer>(),
                                  .shadow = run.shadow,
                                  .is_last = true};
  if (!retain) return PlanCall::push(*this, submission, label);
  push_leased(submission, label);
  end_lease(own);
}

IntrusivePtr<Shadow> ExecutionPlan::next_shadow() {
  if (to_verify_ <= 0 || to_verify_.fetch_sub(1) <= 0) return {};
  return IntrusivePtr<Shadow>(new Shadow(*steps_.verification));
}

void ExecutionPlan::verify_all() { to_verify_ = INT_MAX; }

}  // namespace kaon::graph

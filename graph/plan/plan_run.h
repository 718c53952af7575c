// PlanRun: the state of one run of a plan at a time, and the run itself.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "kaon/graph/plan/plan_capture.h"
#include "kaon/graph/plan/plan_steps.h"

namespace kaon {

class Profiler;

}  // namespace kaon

namespace kaon::graph {

// Thrown by PlanRun::run for the failure of a step, so that its caller can add the step's context.
struct FailedStep {
  const PlanSteps::Step* step;
  std::exception_ptr why;
};

// Owns a reference to its arena, the tensor views that point into it, the state of each kernel, and the earlier values
// of arrays that steps have updated in place. The steps are the plan's and live as long as that. Thread safety: one
// operation at a time, apart from the groups that run() itself runs in parallel; runs that share an arena are ordered
// by the arena's var.
class PlanRun {
 public:
  PlanRun(const PlanSteps& steps, size_t number, IntrusivePtr<Buffer> arena);

  // Points the views of arena values into it, unless they do already.
  void place(void* base);
  // Begins a run: nothing is saved yet.
  void begin() { num_saved_ = 0; }
  // The steps of a phase, independent groups in parallel. All views must be set. With a shadow the steps run in order,
  // and the values of both are compared. Throws FailedStep.
  // Only of the stretch, if one is given.
  void run(Phase phase, const RandomKey& key, RunContext& context, Shadow* shadow,
           const PlanSteps::Stretch* stretch = nullptr);
  // The forward as a part of a calling operation, in `arena_memory`. Throws the failure of a step with its context.
  void run_nested(void* arena_memory, std::span<void* const> inputs, std::span<void* const> outputs,
                  std::span<const Source> input_sources, const RandomKey& key, RunContext& context);
  // After a failure: the arrays that steps have updated in place get the values that they had before.
  void restore() noexcept;
  // The failure of a step with the step's shapes, node and operator.
  std::exception_ptr failure_of(const PlanSteps::Step& step, const std::exception_ptr& why) const noexcept;

  const size_t number;  // of the arena
  const IntrusivePtr<Buffer> arena;
  const void* base = nullptr;  // of the arena when `views` were last pointed into it
  std::vector<TensorView> views;
  std::vector<Source> sources;  // by view, when predicting
  uint64_t parameters = 0;      // the number of the shared read lease whose arrays `views` show; 0: of none
  std::vector<std::unique_ptr<KernelState>> states;
  RandomKey key{};                     // of the numbers that the last forward drew
  IntrusivePtr<Shadow> shadow;         // of a leased forward that is verified, for its backward
  PlanCapture captures[2];             // by phase, on a GPU
  std::vector<CallArray> call_arrays;  // arrays of the present launch, for `captures`

 private:
  void run_steps(std::span<const PlanSteps::Step> steps, const RandomKey& key, RunContext& context, Shadow* shadow);
  void run_step(const PlanSteps::Step& step, const RandomKey& key, RunContext& context, Profiler& profiler);
  void save(const PlanSteps::Step& step) noexcept;

  const PlanSteps& plan_;
  std::vector<std::byte> saved_;  // earlier values of arrays that steps have updated in place
  uint32_t num_saved_ = 0;        // entries of the plan's list saved in this run
};

}  // namespace kaon::graph

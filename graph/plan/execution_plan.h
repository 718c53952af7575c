// ExecutionPlan: a graph with its memory, ready to run as one engine operation.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kaon/graph/plan/capture_plan.h"
#include "kaon/graph/plan/kernel_choices.h"
#include "kaon/graph/plan/parameter_lease.h"
#include "kaon/graph/plan/plan_run.h"
#include "kaon/graph/plan/plan_steps.h"

namespace kaon::graph {

struct PlanCall;
struct PlanSubmission;

// What one plan is made of: PlanSteps, what it runs; a PlanRun for each arena, where it runs; PlanCall, the operation
// that runs it; PlanParameters, whether calls read the parameters under a lease; CapturePlan, its launch as one graph
// on a GPU; KernelChoices, for PlanReport. Owns all of these and shares the arenas. Thread safety: any thread; what it
// runs is immutable once it is built.
class ExecutionPlan : public RefCounted<ExecutionPlan> {
 public:
  // As PlanSteps.
  ExecutionPlan(Graph graph, const PlanOptions& options, std::optional<MemoryPlan> memory = {});

  // Pushes the forward nodes as one operation and makes the forward outputs. With `lease` the run is kept for the
  // backward, until end_lease. With a shadow the values of both are compared; the first difference fails the operation
  // with a VerifyError, and the arrays that it updates stay as they were. Draws the random numbers at `numbers`; null:
  // the engine's next.
  PlanRun& forward(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const OpLabel& label, bool lease,
                   IntrusivePtr<Shadow> shadow = {}, const RandomKey* numbers = nullptr);
  // A shadow for the forwards to be verified, else null. A plan that was found wrong is verified from then on.
  IntrusivePtr<Shadow> next_shadow();
  bool is_verifying() const { return to_verify_ > 0; }
  void verify_all();  // each call from now on
  // Pushes the backward nodes as one operation. `arrays`: the forward inputs, then options().heads; `outputs`: the
  // forward outputs; those that the backward does not read may be undefined. `results`: the gradients: written into the
  // given arrays, made where undefined. With `retain` the saved values stay for another backward.
  void backward(PlanRun& run, std::span<const NDArray* const> arrays, std::span<const NDArray> outputs,
                std::span<NDArray> results, const OpLabel& label, bool retain);
  void end_lease(PlanRun& run);
  void give_back_unused(const PlanRun& run);  // frees its arena's memory, unless that is used, leased or kept

  // For an operator whose kernel runs a graph: a run for PlanRun::run_nested(), in memory().arena_bytes of memory. It
  // is for one call at a time, and lives no longer than the plan.
  std::unique_ptr<PlanRun> make_nested_run() const;

  // Ends the shared read lease of the parameters, until some more calls have found the same ones.
  void forget_parameters() { parameters_.forget(); }

  bool backward_reads_input(size_t i) const { return steps_.is_read(Phase::backward, i); }
  bool updates_input(size_t i) const {
    return steps_.is_updated(Phase::forward, i) || steps_.is_updated(Phase::backward, i);
  }
  bool backward_reads_output(size_t i) const { return steps_.output_read[i]; }

  const PlanSteps& steps() const { return steps_; }
  const Graph& graph() const { return steps_.graph; }
  const PlanOptions& options() const { return steps_.options; }
  const MemoryPlan& memory() const { return steps_.memory; }
  const CapturePlan& capture(Phase phase) const { return captures_[size_t(phase)]; }
  KernelChoices& choices() { return choices_; }
  const KernelChoices& choices() const { return choices_; }
  // Arenas made so far, by this plan and those that share them.
  size_t num_arenas() const { return arenas_->count(); }
  // Runs of a half that were launched on a GPU as one captured graph.
  uint64_t graph_launches() const { return capture(Phase::forward).launches() + capture(Phase::backward).launches(); }

 private:
  PlanRun& acquire();  // until end_lease()
  // Makes those arrays that are undefined; the first of them is output `first` of the graph. rows: of the call, where
  // the plan is padded.
  void make_arrays(size_t first, Device device, std::span<NDArray> arrays, int64_t rows = 0) const;
  void push_leased(const PlanSubmission& s, const OpLabel& label);  // ends the lease of its run if the push fails

  // Members that calls only read are on other cache lines than those that they write: the reference count before them,
  // and the members after the lock.
  alignas(64) const PlanSteps steps_;
  const IntrusivePtr<PlanArenas> arenas_;
  std::atomic<int> to_verify_;  // calls still to be verified
  const CapturePlan captures_[2];
  KernelChoices choices_;  // written by the first run
  alignas(64) SpinLock lock_;
  std::vector<std::unique_ptr<PlanRun>> runs_;  // by arena; null: not used yet
  PlanParameters parameters_;                   // the last member: its lease ends before the rest is gone
};

}  // namespace kaon::graph

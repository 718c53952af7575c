// PlanCall: one phase of a plan as an operation of the engine.
#pragma once

#include <span>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation.h"
#include "kaon/graph/plan/parameter_lease.h"
#include "kaon/graph/plan/plan_run.h"

namespace kaon::graph {

class ExecutionPlan;

// What is submitted.
struct PlanSubmission {
  PlanRun& run;
  Phase phase;
  std::span<const NDArray* const> inputs;
  std::span<const NDArray> forward_outputs{};
  std::span<const NDArray> results;
  IntrusivePtr<Buffer> saved{};  // initial contents of the arena; undefined: its present ones
  RandomKey key{};
  IntrusivePtr<Shadow> shadow{};
  bool is_last;                                 // nothing reads the arena after this
  IntrusivePtr<ParameterLease> parameters{};    // defined: the shared read lease of the parameters
  const PlanSteps::Stretch* stretch = nullptr;  // null: the whole phase
};

// The arguments of one submission, in the operation's trailing storage: {PlanCall, arrays...}. Arrays: inputs, forward
// outputs, gradients; null if this phase does not use one. Keeps the plan, and each array unless a lease keeps it.
// Thread safety: made by the thread that pushes, then used by the one that runs the operation.
//
// The failure of a step fails the operation with the step's context. Outputs computed before that step do not fail,
// unless the plan updates arrays in place: then it is all or nothing, as any operation. A difference that verification
// finds is a VerifyError, after which arrays updated in place have their earlier values.
struct PlanCall {
  IntrusivePtr<ExecutionPlan> plan;
  PlanRun* run;
  IntrusivePtr<Buffer> saved;  // when defined: the arena's initial contents are copied from here
  RandomKey key;
  IntrusivePtr<Shadow> shadow;              // null: not verified
  IntrusivePtr<ParameterLease> parameters;  // defined: it, not the call, keeps these arrays
  uint32_t num_arrays;
  Phase phase;
  bool is_last;                       // nothing reads the arena after this
  const PlanSteps::Stretch* stretch;  // null: the whole phase
  bool has_given_back = false;

  // Nothing fails once the operation has its accesses. Throws std::bad_alloc and what Engine::submit throws.
  static void push(ExecutionPlan& plan, const PlanSubmission& s, const OpLabel& label);

  ArrayNode** arrays() const { return reinterpret_cast<ArrayNode**>(const_cast<PlanCall*>(this) + 1); }
  static PlanCall& of(OpNode& op) { return *static_cast<PlanCall*>(op.behind()); }
  static void execute(OpNode& op, RunContext& context);
  static void destroy(OpNode& op) noexcept;

 private:
  static size_t bytes(uint32_t n) { return sizeof(PlanCall) + n * sizeof(ArrayNode*); }
  void launch(OpNode& op, RunContext& context);     // on a GPU
  void run_phase(OpNode& op, RunContext& context);  // in the arena's memory
  void set_externals(const OpNode& op);             // the views of the call's arrays
  IntrusivePtr<Shadow> begin_shadow() const;        // the imperative run of this call; null: not verified
  void spare_finished(OpNode& op, const Node& failing) const;
};

}  // namespace kaon::graph

// The gradients of a recorded call of a CachedGraph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/graph/ir/tape.h"

namespace kaon::graph {

// The function that the tape records for a call whose forward has run in `run`, which it leases until it is released.
// `wanted`: by input, as the plan was made for. The backward tells `expected_heads` where gradients have arrived.
std::unique_ptr<GradFunction> plan_gradient(IntrusivePtr<ExecutionPlan> plan, PlanRun& run,
                                            std::span<const NDArray* const> inputs, std::span<const NDArray> outputs,
                                            std::vector<bool> wanted, std::shared_ptr<ExpectedHeads> expected_heads,
                                            const OpLabel& label);

}  // namespace kaon::graph

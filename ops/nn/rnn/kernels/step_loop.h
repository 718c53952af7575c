// Loops each of whose steps needs all of the one before: recurrences.
#pragma once

#include <cstdint>

#include "kaon/engine/run_context.h"

namespace kaon::ops {

// Calls body(step, piece) for each piece of [0, pieces) of step 0, then for each of step 1, and so on: a step begins
// when all pieces of the one before are done. Which thread makes a piece is left open, so that what a piece computes
// may depend on nothing but its numbers. The threads that take part stay until the last step, and keep to their pieces
// as long as all are in time: what a piece reads in every step stays in the cache of one core. A step costs some
// 0.3 us, where a parallel loop of its own costs a microsecond, or ten when a thread has to be called. The first
// exception of body ends the loop and is rethrown.
void in_steps(RunContext& run, int64_t steps, int64_t pieces, engine::FunctionRef<void(int64_t, int64_t)> body);

}  // namespace kaon::ops

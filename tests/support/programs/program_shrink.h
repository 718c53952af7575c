// Making a failing program small.
#pragma once

#include "kaon/engine/run_context.h"
#include "kaon/tests/support/programs/program.h"

namespace kaon::test {

// The smallest program found for which `fails` holds, as it does for the one given: fewer calls, heads, phases and
// elements, one change after another. Calls `fails` at most `tries` times, with programs that run.
Program shrunk(Program program, engine::FunctionRef<bool(const Program&)> fails, int tries = 2000);

// The programs one change away, the smallest first; some of them cannot run.
std::vector<Program> smaller_programs(const Program& program, bool is_body = false);

// With the shapes and dtypes of its values as they are now; false when it does not run.
bool retype(Program& program);

}  // namespace kaon::test

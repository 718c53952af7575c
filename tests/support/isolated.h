// Running something that may crash in a process of its own.
#pragma once

#include <string>

#include "kaon/engine/run_context.h"

namespace kaon::test {

// What body() returns, in a forked child; "crashed: ..." when the child dies, is killed after so many seconds or
// throws. No other thread may be running an operation.
std::string isolated(engine::FunctionRef<std::string()> body, unsigned seconds = 60);

}  // namespace kaon::test

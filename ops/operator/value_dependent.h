// Functions the size of whose result depends on values: they wait for them, and no trace has them.
#pragma once

namespace kaon::ops {

// Throws TraceError, naming the function, where operators are traced.
void expect_values(const char* function);

}  // namespace kaon::ops

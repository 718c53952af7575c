// Comparison of a trace with a new one, to see whether hybrid_forward has changed.
#pragma once

#include "kaon/graph/symbol.h"

namespace kaon::graph {

// Throws VerifyError naming the first operator that `now` computes otherwise than `traced`: another one, other
// attributes, other inputs. Names do not matter. May wait for constants.
void check_trace(const Symbol& traced, const Symbol& now, const char* name);

}  // namespace kaon::graph

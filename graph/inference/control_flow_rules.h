// The rules of loops and conditions: what follows inside of their bodies.
#pragma once

#include "kaon/graph/inference/facts.h"

namespace kaon::graph {

// Both learn nothing from a body that MXNet's format cannot hold. Throw as rules do.
void learn_control_flow(ShapeFacts& f);
void learn_control_flow(TypeFacts& f);

}  // namespace kaon::graph

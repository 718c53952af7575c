// Which nodes of a graph run side by side.
#pragma once

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

// Finds stretches of nodes that fall into groups without an edge between them: the branches of a net, the gradients of
// a layer's data and weight. When running the groups in parallel saves more than handing them over costs, by an
// estimate from shapes, they are noted in graph.parallel_regions, and the nodes of a stretch are ordered by group;
// small groups are joined, so that each is worth a hand-over. Nodes that draw random numbers or update an input stay
// outside. When the arena would grow by more than a MiB and an eighth, nothing changes. Depends on the graph only.
Graph with_parallel_regions(Graph graph, bool training);

// Nanoseconds that a node takes on one core, roughly; views, inputs and constants take none.
double estimated_time(const Graph& graph, const Node& node);

}  // namespace kaon::graph

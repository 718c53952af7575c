// Passes: functions from Graph to Graph. Each keeps what the outputs compute.
#pragma once

#include "kaon/graph/graph.h"

namespace kaon::passes {

// Outputs that are inputs, constants, views of these, or listed twice get a copy node: a plan's outputs are arrays of
// their own.
Graph own_outputs(Graph graph);

// Drops nodes that no output needs (nodes that update an input stay).
Graph dead_code(Graph graph);

// Merges nodes with the same operator, attributes and inputs; never random or updating ones, nor readers of what is
// updated.
Graph common_subexpressions(Graph graph);

// Without training Dropout hands its input through.
Graph drop_dropout(Graph graph, bool training);

// An activation that alone reads a FullyConnected or Convolution becomes part of it.
Graph fuse_activation(Graph graph);

// Keeps 4-D values between convolutions, poolings and operators that do not mind in channels-last memory, with
// reorders where such a region begins and ends. Shapes stay logical (N, C, H, W).
Graph channels_last(Graph graph);

}  // namespace kaon::passes

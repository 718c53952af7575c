// Operators that MXNet lacks, in terms of those that it has, for files.
#pragma once

#include "kaon/graph/symbol.h"

namespace kaon::graph {

// The program with ScaledDotProductAttention written as products and a softmax, as far as MXNet's operators can say it
// for any shape: as many heads of keys as of queries, not causal, without valid_length, and where a mask is a cast to
// bool. Others stay, and writing the program refuses them.
Symbol in_mxnet_terms(const Symbol& program);

}  // namespace kaon::graph

// Operators whose calls are not calls of one of Kaon's operators.
#pragma once

#include "kaon/mxnet/call/call.h"

namespace kaon::mxnet {

struct LayerOperator {
  // The results that are to be put into `outputs`; those that it has put there itself are left out.
  Results (*call)(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);
};

// nullptr: the call is one of Kaon's operator. Thread safety: any thread.
const LayerOperator* find_layer_operator(const OperatorInfo& info, Arrays inputs);

}  // namespace kaon::mxnet

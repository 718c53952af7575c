// Updates of weights by row_sparse gradients.
#pragma once

#include <optional>

#include "kaon/mxnet/call/call.h"

namespace kaon::mxnet {

// The new weight, where the operator updates one and its gradient is sparse; none: it is another call. States change in
// place, and the weight does where it is among `outputs`.
std::optional<Results> update_sparse(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);

}  // namespace kaon::mxnet

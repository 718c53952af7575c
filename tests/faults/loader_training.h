// A training loop over a loader with workers, with steps of both kinds.
#pragma once

#include <atomic>
#include <vector>

#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace kaon::test {

using Values = std::vector<std::vector<float>>;  // one vector for each parameter
Values values_of(const nn::HybridSequential& net);

nn::HybridSequential new_net();  // the same each time

// The net that train_from_loader() is training.
inline std::atomic<nn::HybridSequential*> g_net{nullptr};

// The parameters after the last step; `keeps_states`: and before it whatever they were in between.
std::vector<Values> train_from_loader(bool keeps_states);

}  // namespace kaon::test

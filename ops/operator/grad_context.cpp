#include "kaon/ops/ndarray.h"
#include "kaon/ops/op.h"

namespace kaon {

using namespace ops;

NDArray GradContext::presence(int) const { return {}; }
void GradContext::set_sometimes(int i, NDArray gradient, NDArray) { set(i, std::move(gradient)); }

void ComposeContext::set(int i, NDArray result) { results_[i] = std::move(result); }
void ComposeContext::set(NDArray result) { set(0, std::move(result)); }

}  // namespace kaon

#include "kaon/ops/ndarray.h"
#include "kaon/ops/op.h"

namespace kaon {

using namespace ops;

NDArray GradContext::presence(int) const { return {}; }
void GradContext::set_sometimes(int i, NDArray gradient, NDArray) { set(i, std::move(gradient)); }

}  // namespace kaon

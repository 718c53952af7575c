// Filling arrays with one number.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::ops {

// Every element becomes `value`, converted to the dtype.
void fill(const TensorView& out, double value, RunContext& run);
void fill_cuda(const TensorView& out, double value, KernelContext& c);

}  // namespace kaon::ops

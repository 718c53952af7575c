// Conversion of numbers of any dtype to any other on the CPU.
#pragma once

#include <cstddef>

#include "kaon/ops/dtype.h"

namespace kaon::ops {

// out[i] = in[i] for i < n, as convert() in convert.h. The arrays do not overlap.
void convert_values(DType from, const void* in, DType to, void* out, size_t n);

}  // namespace kaon::ops

// The beginning of the source of kernels that are compiled at run time.
#pragma once

namespace kaon::cuda {

// The element functions (ops/math/scalar_math.h), conversions between dtypes, and loads and stores of several
// elements (ops/cuda/pack.cuh), as text.
const char* kernel_prelude();

}  // namespace kaon::cuda

// Values of arrays to and from memory of the program.
#pragma once

#include "kaon/ops/ndarray.h"

namespace kaon::mxnet {

// Copies all elements, row-major, to `out`. Blocks. Throws the array's failure.
void read_values(const NDArray& array, void* out);
// Overwrites all elements with those at `values`, which may be reused at the return. Blocks until operations that were
// pushed before have ended.
void write_values(const NDArray& array, const void* values);

}  // namespace kaon::mxnet

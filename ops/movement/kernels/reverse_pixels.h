// Rows of pixels of three bytes in reverse order, as a mirrored image has them.
#pragma once

#include "kaon/ops/kernels/strided_copy.h"

namespace kaon::ops {

// Makes the copy if it reverses rows of three bytes each along its last dimension but one, and says whether it has.
bool reverse_pixels(KernelContext& c, const StridedCopy& copy);

}  // namespace kaon::ops

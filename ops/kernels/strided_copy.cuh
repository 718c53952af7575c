// strided_copy on a device.
#pragma once

#include "kaon/ops/kernels/strided_copy.h"

namespace kaon::cuda {

// Elements of `width` bytes (1, 2, 4, 8).
void strided_copy(KernelContext& c, const StridedCopy& copy, const void* src, void* dst, size_t width);
// Copies from input 0 to output 0.
void strided_copy(KernelContext& c, const StridedCopy& copy);
// The source is one element with these bits.
void strided_fill(KernelContext& c, const StridedCopy& copy, uint64_t bits, void* dst, size_t width);

}  // namespace kaon::cuda

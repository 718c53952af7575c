// Bits of integers in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/numeric/numeric.h"

namespace kaon::ops {

// y[i] = a[i] << b[i], and 0 where b[i] is not in [0, 32): for int32 and uint32.
void left_shift_words(const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n);

// a & b, a | b or a ^ b of integers of any width; y may be one of them.
void bits_of_bytes(BitsKind kind, const void* a, const void* b, void* y, size_t bytes);

}  // namespace kaon::ops

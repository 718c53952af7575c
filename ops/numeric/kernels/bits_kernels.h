// Shifts of integers in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// y[i] = a[i] << b[i], and 0 where b[i] is not in [0, 32): for int32 and uint32.
void left_shift_words(const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n);

}  // namespace kaon::ops

// Conversions of tiles of numbers that have vector forms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// convert() of each element.
void float32_to_int32(const float* from, int32_t* to, size_t n);
void float32_to_int8(const float* from, int8_t* to, size_t n);  // of uint8 the same bits
void uint8_to_float32(const uint8_t* from, float* to, size_t n);

}  // namespace kaon::ops

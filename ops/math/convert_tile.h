// Conversions of tiles of numbers that have vector forms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// convert() of each element.
void float32_to_int32(const float* from, int32_t* to, size_t n);
void float32_to_int8(const float* from, int8_t* to, size_t n);  // of uint8 the same bits
void uint8_to_float32(const uint8_t* from, float* to, size_t n);

// Pairs of dtypes whose conversion is one instruction for a vector.
// clang-format off
enum class PlainConversion : uint8_t {
  float32_to_float64, float64_to_float32, int32_to_float32, int32_to_float64, int32_to_int64, int64_to_int32
};
// clang-format on
void convert_plainly(PlainConversion kind, const void* from, void* to, size_t n);

}  // namespace kaon::ops

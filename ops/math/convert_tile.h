// Conversions of tiles of numbers that have vector forms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// convert<int32_t>() of each element.
void float32_to_int32(const float* from, int32_t* to, size_t n);

}  // namespace kaon::ops

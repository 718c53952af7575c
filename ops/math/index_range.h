// Whether indices lie within an axis, by the vectors of each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// Whether x[i] is in [0, n) for all i < count; n >= 0.
bool all_within(const int64_t* x, size_t count, int64_t n);
bool all_within(const int32_t* x, size_t count, int64_t n);

}  // namespace kaon::ops

// Pointwise operators over one tile of float32. Kernels call them for each piece, a fused chain for each tile in L1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/dtype.h"

namespace kaon::ops {

// out[i] = op(in[0][i], in[1][i], ...) for i < n. `attrs` is the operator's struct. `out` may be one of the inputs.
// Element i does not depend on the division into tiles, so fused and imperative results are bit-equal.
using TileFn = void (*)(const void* attrs, const float* const* in, float* out, size_t n);

// Copies with non-temporal stores, for outputs larger than the caches. The thread calls stream_flush() before another
// thread may read.
void stream_copy(float* to, const float* from, size_t n);
void stream_flush();

// 16-bit floats and back, rounding to nearest even.
void float16_to_float32(const void* from, float* to, size_t n);
void bfloat16_to_float32(const void* from, float* to, size_t n);
void float32_to_float16(const float* from, void* to, size_t n);
void float32_to_bfloat16(const float* from, void* to, size_t n);
// The conversion of float16 or bfloat16.
constexpr auto half_to_float32(DType t) { return t == DType::float16 ? float16_to_float32 : bfloat16_to_float32; }
constexpr auto float32_to_half(DType t) { return t == DType::float16 ? float32_to_float16 : float32_to_bfloat16; }

// The sum of n floats, taken in double; and sums[i] += from[i].
double sum_floats(const float* from, size_t n);
void add_floats(const float* from, double* sums, size_t n);

}  // namespace kaon::ops

// Loops over levels, per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/view.h"

namespace kaon::ops {

constexpr size_t quant_tile = 1024;  // elements that fit into the first cache as floats

// to[i] = scale from[i], for levels of int8, uint8 or int32.
void levels_to_floats(DType from, const void* levels, float scale, float* to, size_t n);
// The levels nearest to scale from[i], as nearest_level() has them.
void floats_to_levels(const float* from, float scale, DType to, void* levels, size_t n);
// sums[i] += scale from[i], rounded twice or, `fused`, once.
void add_scaled(const float* from, float scale, bool fused, float* sums, size_t n);
// The sum of lhs_scale lhs[i] and rhs_scale rhs[i] as levels of the same dtype, int8 or uint8.
void add_levels(DType t, const void* lhs, float lhs_scale, const void* rhs, float rhs_scale, void* sum, size_t n);
// scale lhs[i] rhs[i] for levels of int8, with `truncated` rounded towards 0.
void multiply_levels(const int8_t* lhs, const int8_t* rhs, float scale, bool truncated, float* to, size_t n);
// As asymmetric_level has them.
void floats_to_asymmetric(const float* from, float scale, float shift, uint8_t* levels, size_t n);
// y[i] = max(y[i], 0); a NaN stays.
void relu_floats(float* y, size_t n);
// to[r, c] = scale[c] (float(sums[r, c]) + float(bias[c])); bias and scale may be null.
void sums_to_floats(const int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, const float* scale,
                    float* to);
// The same, with `relu` at least 0, as levels of int8 or uint8, of which `zero` stands for 0, rows `stride` apart;
// scale is not null. `whole`: the bias is added before sums become floats.
struct LevelsOfSums {
  DType dtype = DType::uint8;
  const int32_t* bias = nullptr;
  const float* scale = nullptr;
  float zero = 0;
  bool whole = false, relu = false;
};
void sums_to_levels(const int32_t* sums, int64_t rows, int64_t channels, const LevelsOfSums& how, void* levels,
                    int64_t stride);
// sums[r, c] += bias[c], and with `relu` at least 0; bias may be null.
void finish_sums(int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, bool relu);

// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
void transpose_bytes(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride, int64_t rows,
                     int64_t columns);

// out[f] = the sum over i < length of patch[i] filters[f * length + i]. length is a multiple of 32.
void dot_products(const int16_t* patch, const int16_t* filters, int64_t length, int64_t count, int32_t* out);

// Levels of one dtype as levels of another, or as floats: scale times each. In pieces, by the engine's threads.
void rescale_levels(RunContext& run, DType from, const void* in, float scale, DType to, void* out, int64_t n);

}  // namespace kaon::ops

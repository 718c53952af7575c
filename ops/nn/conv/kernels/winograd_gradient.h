// The gradient of the filters by Winograd's transforms, on one thread. With Y = A^T [(G w G^T) * (B^T x B)] A for each
// tile, dw = G^T [sum over tiles of (B^T x B) * (A dy A^T)] G: as many products as forward.
#pragma once

#include "kaon/ops/nn/conv/kernels/winograd.h"

namespace kaon::ops::winograd {

// Floats of a tile's numbers of one point for this many output channels: whole panels.
constexpr int64_t head_width(int64_t out_channels) { return panels(out_channels) * panel; }
// Floats between the numbers of a point and of the next one, as input_stride().
constexpr int64_t head_stride(int64_t count, int64_t out_channels) { return count * head_width(out_channels) + block; }
constexpr int64_t sum_stride(int64_t in_channels, int64_t out_channels) {
  return in_blocks(in_channels) * head_width(out_channels) + block;
}

// A dy A^T for a block of tiles: points x head_stride() floats, as point, tile, channel; channels beyond the last one
// are zeros.
void transform_heads(const Images& heads, const Tiles& tiles, int64_t out_channels, float* transformed);

// For each point, the products of transformed inputs (transform_input()) and heads, summed over the tiles: points x
// sum_stride() floats, as point, input channel, output channel. With `add` to what `sums` holds.
void multiply_heads(const float* input, const float* heads, const Tiles& tiles, int64_t in_channels,
                    int64_t out_channels, bool add, float* sums);

// Stores G^T sums G as filters; strides as those of Filters.
void transform_sums(const float* sums, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                    int64_t out_stride, int64_t in_stride, int64_t tap_stride, float* filters);

}  // namespace kaon::ops::winograd

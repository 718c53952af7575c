// Convolutions computed as they are defined, their sums in registers: for images of few channels, filters that fill
// oneDNN's vectors badly, and AVX2, where oneDNN is slow for images with channels last.
#pragma once

#include "kaon/ops/nn/conv/kernels/conv_partition.h"

namespace kaon::ops {

// Two axes and one group, and something to compute.
bool direct_fits(const ConvGeometry& g);
// Against oneDNN's kernels for images with channels last.
bool direct_pays_forward(const ConvGeometry& g);
bool direct_pays_backward_weight(const ConvGeometry& g);
// The same as the first where an image is divided into slices or parts. That was measured with AVX2 alone.
bool direct_pays_divided(const ConvGeometry& g);

// Output channels that are consecutive in the weights of direct_forward.
constexpr int64_t direct_block = 16;

// Input channels that are consecutive in them: a divisor of all.
int64_t direct_channels(const ConvGeometry& g);

// Images are channels last. On this thread. y (out_rows, out[1], filters), rows of one image's results, from the rows
// of the image that they read, x (in_rows, in[1], channels), plus the bias (filters) unless it is null, through relu
// where it is asked for; NaN stays NaN. The weights are (block of filters, block of channels, tap, channel of the
// block, filter of the block), zeros for the filters that the last block lacks.
void direct_forward(const ConvGeometry& g, const ConvRows& rows, const float* x, const float* w, const float* bias,
                    bool relu, float* y);
// dw (tap, channel, filter) where filters fill vectors better than a row of taps does, else (filter, tap, channel).
bool direct_filters_last(const ConvGeometry& g);
void direct_backward_weight(const ConvGeometry& g, int64_t images, const float* dy, const float* x, float* dw);

}  // namespace kaon::ops

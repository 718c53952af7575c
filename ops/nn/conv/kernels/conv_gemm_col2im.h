// Convolution data gradient as GEMM + col2im.
#pragma once

#include "kaon/ops/nn/conv/kernels/conv_geometry.h"

namespace kaon::ops {

// Two axes, one group, no border and no dilation: a row of a patch is then one run of numbers where channels are last.
bool gemm_col2im_fits(const ConvGeometry& g);
// Against oneDNN's direct kernel, whose vectors run over the channels: where its last vector is mostly empty.
bool gemm_col2im_pays(const ConvGeometry& g);

// Images are channels last; weights are (filter, tap, channel). On this thread, in blocks of patches that fit the
// cache. dx (images, in, channels) from dy (images, out, filters).
void gemm_col2im_backward_data(const ConvGeometry& g, int64_t images, const float* dy, const float* w, float* dx);

// to[j] += from[i * columns + j] for all rows i; they do not overlap.
void add_rows(const float* from, float* to, int64_t rows, int64_t columns);

}  // namespace kaon::ops

// The three computations behind Convolution, Deconvolution and their gradients.
#pragma once

#include "kaon/ops/nn/conv_geometry.h"
#include "kaon/ops/nn/fused_activation.h"
#include "kaon/ops/view.h"

namespace kaon {

// Float32 on oneDNN. Weights (out_channels, in_channels / groups, taps...) and bias are row-major; the image tensors
// lie as their views say. Batches are split into pieces that are fixed by the sizes.
// y = activation(x * w + bias); `bias` may be null.
void conv_forward(KernelContext& c, const ConvGeometry& g, const TensorView& x, const float* w, const float* bias,
                  const TensorView& y, FusedActivation activation);
// dx = the gradient of x.
void conv_backward_data(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const float* w,
                        const TensorView& dx);
// dw and db = the gradients of w and bias, summed over pieces in their order; `db` may be null.
void conv_backward_weight(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const TensorView& x, float* dw,
                          float* db);

// The same in double by plain loops, row-major.
void conv_forward_double(KernelContext& c, const ConvGeometry& g, const double* x, const double* w, const double* bias,
                         double* y, FusedActivation activation);
void conv_backward_data_double(KernelContext& c, const ConvGeometry& g, const double* dy, const double* w, double* dx);
void conv_backward_weight_double(KernelContext& c, const ConvGeometry& g, const double* dy, const double* x, double* dw,
                                 double* db);

}  // namespace kaon

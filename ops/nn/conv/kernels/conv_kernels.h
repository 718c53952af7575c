// The three computations of Convolution, Deconvolution and their gradients.
#pragma once

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Float32 on oneDNN. The weights are in the order that the geometry says; image tensors have the layouts of their
// views. Batches are split into pieces that are fixed by the sizes. y = x * w and then the epilogue,
// whose addend has y's layout and may be y.
void conv_forward(KernelContext& c, const ConvGeometry& g, const TensorView& x, const float* w, const TensorView& y,
                  Epilogue<float> epilogue);
// dx = the gradient of x.
void conv_backward_data(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const float* w,
                        const TensorView& dx);
// dw and db = the gradients of w and bias, summed over pieces in their order; `db` may be null.
void conv_backward_weight(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const TensorView& x, float* dw,
                          float* db);

// The same in double by plain loops. All images are row-major, or all are channels last.
void conv_forward_double(KernelContext& c, const ConvGeometry& g, const TensorView& x, const double* w,
                         const TensorView& y, const Epilogue<double>& epilogue);
void conv_backward_data_double(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const double* w,
                               const TensorView& dx);
void conv_backward_weight_double(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const TensorView& x,
                                 double* dw, double* db);

}  // namespace kaon::ops

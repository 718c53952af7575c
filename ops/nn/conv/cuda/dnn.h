// Convolutions on the GPU: by cuDNN, or as matrix products where these are faster. A light header: .cu files read it.
#pragma once

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"

namespace kaon::cuda {

enum class ConvDirection { forward, backward_data, backward_weight };

// A convolution of images in this layout, row_major or channels_last, and weights (out_channels, in_channels / groups,
// taps...), all of this floating dtype; 16-bit floats accumulate in float32.
struct ConvSetup {
  ConvGeometry geometry;
  DType dtype = DType::float32;
  Layout layout = Layout::row_major;
  int64_t workspace = 1024;  // MiB that an algorithm may take, as MXNet's attribute says
};

// Each launches a convolution; same setup, same bits. Throw DeviceError, and ValueError for sizes that cuDNN does not
// take. y = x * w and then the epilogue, whose addend may be y; its scale is multiplied into the weights, rounded to
// the dtype.
void conv_forward(KernelContext& c, const ConvSetup& setup, const void* x, const void* w, void* y,
                  Epilogue<void> epilogue);
void conv_backward_data(KernelContext& c, const ConvSetup& setup, const void* dy, const void* w, void* dx);
void conv_backward_weight(KernelContext& c, const ConvSetup& setup, const void* dy, const void* x, void* dw);

}  // namespace kaon::cuda

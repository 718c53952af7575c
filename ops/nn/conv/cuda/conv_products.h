// Convolutions with windows of one element as matrix products.
#pragma once

#include "kaon/ops/nn/conv/cuda/dnn.h"

namespace kaon::cuda {

// Whether the convolution is faster as a product. With channels last all positions are the rows of one matrix, unless a
// stride skips some. Row-major images are a matrix each, which pays for gradients in dtypes that tensor cores do not
// take, since cuDNN's deterministic kernels for these are slow.
bool is_product(const ConvSetup& setup, ConvDirection direction);

// As the functions of dnn.h.
void product_forward(KernelContext& c, const ConvSetup& setup, const void* x, const void* w, void* y,
                     const Epilogue<void>& epilogue);
void product_backward_data(KernelContext& c, const ConvSetup& setup, const void* dy, const void* w, void* dx);
void product_backward_weight(KernelContext& c, const ConvSetup& setup, const void* dy, const void* x, void* dw);

}  // namespace kaon::cuda

// Convolutions with ONNX's attributes.
#pragma once

#include "kaon/interchange/onnx/operators/windows.h"

namespace kaon::onnx::convert {

// The attributes of the call's convolution with filters of shape `weight`, without a bias; `x`, which `padding` has
// been put around where the operator cannot do it.
struct ConvolutionCall {
  op::Convolution op;
  Symbol x;
};
ConvolutionCall convolution_call(const Call& c, const Symbol& x, const Shape& weight, double padding = 0);
// x (n, c, ...) and weight (filters, c / group, kernel...) with the call's attributes.
Symbol convolution(const Call& c, const Symbol& x, const Symbol& weight, const Symbol* bias = nullptr);

}  // namespace kaon::onnx::convert

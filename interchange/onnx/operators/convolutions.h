// Convolutions with ONNX's attributes.
#pragma once

#include "kaon/interchange/onnx/operators/windows.h"

namespace kaon::onnx::convert {

// x (n, c, ...) and weight (filters, c / group, kernel...) with the call's attributes.
Symbol convolution(const Call& c, const Symbol& x, const Symbol& weight, const Symbol* bias = nullptr);

}  // namespace kaon::onnx::convert

// Numbers of a few bits in bytes.
#pragma once

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// Bytes (..., n) of numbers of 2, 4 or 8 bits, the first in the lowest ones, as float32 (..., n * 8 / bits).
Symbol unpacked(const Symbol& bytes, int64_t bits);

}  // namespace kaon::onnx::convert

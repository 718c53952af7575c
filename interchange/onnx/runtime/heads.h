// Heads of attention: what ONNX Runtime's operators share.
#pragma once

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// 0, 1, ... n - 1 in float32.
Symbol step_numbers(int64_t n, const Shape& shape);
// (batch, steps, heads d) as (batch, heads, steps, d).
Symbol split_into_heads(const Call& c, const Symbol& x, int64_t heads);
Symbol heads_joined(const Symbol& x);  // and back
void add_bias(Symbol& bias, const Symbol& more);
// Rotary positions of x (batch, heads, steps, d): the first numbers of each head turned by the angles whose cosines and
// sines (positions, half of these numbers) are given, at `positions` (batch or 1, steps).
Symbol rotated(const Call& c, const Symbol& x, const Symbol& cosines, const Symbol& sines, const Symbol& positions,
               bool interleaved);

}  // namespace kaon::onnx::convert

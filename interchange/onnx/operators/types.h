// Conversions between element types.
#pragma once

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// The numbers of a value that is held as codes, float32; others as they are.
Value decoded(Call& c, const Value& x);
// The codes of numbers.
Value encoded(Call& c, const Value& x, ElementType type, bool saturate);
bool is_small_integer(ElementType type);  // of 4 or 2 bits
// What Cast makes of a value.
Value converted(Call& c, const Value& x, ElementType type, bool saturate = true);

}  // namespace kaon::onnx::convert

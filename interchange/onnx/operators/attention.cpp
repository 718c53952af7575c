// Attention.
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

std::span<const Row> attention_rows() { return {}; }

}  // namespace kaon::onnx::convert

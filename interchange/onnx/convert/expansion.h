// How many nodes a model has once its functions are expanded.
#pragma once

#include <string>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::convert {

// Throws ValueError, naming the file, for a model whose functions call each other so often that it would have more than
// `most` nodes, and for a function that calls itself: a few of them can make a small file expand without end.
void check_expansion(const format::Model& model, const std::string& file, int64_t most = 1 << 22);

}  // namespace kaon::onnx::convert

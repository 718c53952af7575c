// One graph out of those for several sizes.
#pragma once

#include <vector>

#include "kaon/interchange/onnx/sizes/any_size.h"

namespace kaon::onnx::exporting {

// What AnySizes::joined() gives.
Builder join_graphs(const AnySizes& sizes, std::vector<SizedGraph> graphs);

}  // namespace kaon::onnx::exporting

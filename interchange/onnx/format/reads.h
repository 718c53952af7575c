// What nodes read.
#pragma once

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::format {

// Calls `visit` with the name of each value that the node reads or that a graph inside it reads or gives. Inputs that
// are left out have none.
template <class Visit>
void for_each_read(const Node& node, const Visit& visit) {
  for (const std::string& name : node.inputs) {
    if (!name.empty()) visit(name);
  }
  for (const Attribute& a : node.attributes) {
    for (const auto& graph : a.graphs) {
      for (const Node& inner : graph->nodes) for_each_read(inner, visit);
      for (const ValueInfo& output : graph->outputs) visit(output.name);
    }
  }
}

}  // namespace kaon::onnx::format

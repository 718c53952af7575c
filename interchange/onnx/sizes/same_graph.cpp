#include "kaon/interchange/onnx/sizes/same_graph.h"

#include <algorithm>

namespace kaon::onnx::exporting {

using format::Graph;
using format::Node;

namespace {

bool same_graph(const Graph& a, const Graph& b);

bool same_tensor(const format::Tensor& a, const format::Tensor& b) {
  return a.name == b.name && a.type == b.type && a.dims == b.dims && a.strings == b.strings &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

bool same_attribute(const format::Attribute& a, const format::Attribute& b) {
  return a.name == b.name && a.type == b.type && a.f == b.f && a.i == b.i && a.s == b.s && a.floats == b.floats &&
         a.integers == b.integers && a.strings == b.strings &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same_tensor) &&
         std::equal(a.graphs.begin(), a.graphs.end(), b.graphs.begin(), b.graphs.end(),
                    [](const auto& x, const auto& y) { return same_graph(*x, *y); });
}

bool same_graph(const Graph& a, const Graph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [](const Node& x, const Node& y) {
                      return same_structure(x, y) && differing_attribute(x, y) == nullptr;
                    }) &&
         std::equal(a.initializers.begin(), a.initializers.end(), b.initializers.begin(), b.initializers.end(),
                    same_tensor);
}

}  // namespace

const format::Attribute* differing_attribute(const Node& a, const Node& b) {
  for (size_t i = 0; i < a.attributes.size() && i < b.attributes.size(); ++i) {
    if (!same_attribute(a.attributes[i], b.attributes[i])) return &a.attributes[i];
  }
  return nullptr;
}

bool same_structure(const Node& a, const Node& b) {
  return a.op_type == b.op_type && a.domain == b.domain && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.attributes.size() == b.attributes.size();
}

}  // namespace kaon::onnx::exporting

// Small ONNX models that tests make.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::test {

template <class T>
onnx::format::Tensor onnx_tensor(const std::string& name, const std::vector<int64_t>& dims,
                                 onnx::format::ElementType type, std::vector<T> values) {
  onnx::format::Tensor t;
  t.name = name, t.dims = dims, t.type = type;
  auto own = std::make_shared<const std::vector<T>>(std::move(values));
  t.bytes = std::as_bytes(std::span(*own));
  t.keeper = own;
  return t;
}

// A negative size is any size.
inline onnx::format::ValueInfo onnx_info(const std::string& name, onnx::format::ElementType type,
                                         const std::vector<int64_t>& dims) {
  onnx::format::ValueInfo v;
  v.name = name, v.type = type, v.has_shape = true;
  for (int64_t d : dims) v.dims.push_back({d, d < 0 ? "n" : ""});
  return v;
}

inline onnx::format::Node onnx_node(const std::string& op_type, std::vector<std::string> inputs,
                                    std::vector<std::string> outputs) {
  onnx::format::Node n;
  n.op_type = op_type, n.inputs = std::move(inputs), n.outputs = std::move(outputs);
  return n;
}

inline onnx::format::Model onnx_model(int64_t opset) {
  onnx::format::Model m;
  m.ir_version = 8;
  m.opsets[""] = opset;
  m.graph.name = "test";
  return m;
}

}  // namespace kaon::test

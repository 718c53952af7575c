// Models of one node, for tests.
#pragma once

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/tests/support/files.h"

namespace kaon::test {

namespace proto = kaon::onnx::format;

inline proto::Attribute integer(const std::string& name, int64_t value) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::integer, a.i = value;
  return a;
}

inline proto::Attribute integers(const std::string& name, const std::vector<int64_t>& values) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::integers, a.integers = values;
  return a;
}

inline proto::Attribute floats(const std::string& name, const std::vector<float>& values) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::floats, a.floats = values;
  return a;
}

inline proto::Attribute text(const std::string& name, const std::string& value) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::string, a.s = value;
  return a;
}

inline proto::Attribute texts(const std::string& name, const std::vector<std::string>& values) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::strings, a.strings = values;
  return a;
}

template <class T>
proto::Tensor tensor(const std::string& name, proto::ElementType type, const std::vector<int64_t>& dims,
                     const std::vector<T>& values) {
  proto::Tensor t;
  t.name = name, t.dims = dims, t.type = type;
  auto own = std::make_shared<const std::vector<T>>(values);
  t.bytes = std::as_bytes(std::span(*own));
  t.keeper = own;
  return t;
}

template <class T>
proto::Attribute tensor_attribute(const std::string& name, proto::ElementType type, const std::vector<T>& values) {
  proto::Attribute a;
  a.name = name, a.type = proto::Attribute::Type::tensor;
  a.tensors = {tensor<T>(name, type, {int64_t(values.size())}, values)};
  return a;
}

// One operator; its inputs are those of the model unless they are initializers or have no name.
struct OneNode {
  proto::Model model;

  OneNode(const std::string& domain, const std::string& op_type,
          const std::vector<std::pair<std::string, proto::ElementType>>& inputs, int outputs,
          const std::vector<proto::Attribute>& attributes, const std::vector<proto::Tensor>& initializers = {}) {
    model.ir_version = 10;
    model.opsets = {{"", 21}, {"com.microsoft", 1}, {"ai.onnx.ml", 5}};
    model.graph.name = "one";
    model.graph.initializers = initializers;
    proto::Node n;
    n.op_type = op_type, n.domain = domain, n.name = "the_node", n.attributes = attributes;
    for (const auto& [name, type] : inputs) {
      n.inputs.push_back(name);
      const bool is_given = std::ranges::none_of(initializers, [&](const proto::Tensor& t) { return t.name == name; });
      if (is_given && !name.empty()) model.graph.inputs.push_back(info(name, type));
    }
    for (int i = 0; i < outputs; ++i) {
      n.outputs.push_back("y" + std::to_string(i));
      model.graph.outputs.push_back(info(n.outputs.back(), proto::ElementType::undefined));
    }
    model.graph.nodes = {n};
  }

  onnx::Block load() const {
    const ScratchFolder folder;
    std::ofstream(folder / "one.onnx", std::ios::binary) << proto::write_model(model);
    return onnx::load(folder / "one.onnx");
  }

 private:
  static proto::ValueInfo info(const std::string& name, proto::ElementType type) {
    proto::ValueInfo v;
    v.name = name, v.type = type;
    return v;
  }
};

}  // namespace kaon::test

#include "kaon/interchange/onnx/export/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

namespace {

Attribute attribute(std::string_view name, Attribute::Type type) {
  Attribute a;
  a.name = name;
  a.type = type;
  return a;
}

// The operators of the standard that came after opset 17, the first that is written.
int64_t first_opset(std::string_view op_type) {
  struct Row {
    std::string_view op_type;
    int64_t opset;
  };
  static constexpr Row rows[] = {
      {"BitwiseAnd", 18},      {"BitwiseNot", 18},       {"BitwiseOr", 18},   {"BitwiseXor", 18},
      {"CenterCropPad", 18},   {"Col2Im", 18},           {"Mish", 18},        {"GroupNormalization", 18},
      {"DeformConv", 19},      {"AffineGrid", 20},       {"Gelu", 20},        {"ImageDecoder", 20},
      {"RegexFullMatch", 20},  {"StringConcat", 20},     {"StringSplit", 20}, {"Attention", 23},
      {"RotaryEmbedding", 23}, {"RMSNormalization", 23}, {"Swish", 24},       {"TensorScatter", 24},
  };
  for (const Row& row : rows) {
    if (row.op_type == op_type) return row.opset;
  }
  return 17;
}

}  // namespace

Attribute integer(std::string_view name, int64_t value) {
  Attribute a = attribute(name, Attribute::Type::integer);
  a.i = value;
  return a;
}
Attribute real(std::string_view name, double value) {
  Attribute a = attribute(name, Attribute::Type::float32);
  a.f = float(value);
  return a;
}
Attribute text(std::string_view name, std::string_view value) {
  Attribute a = attribute(name, Attribute::Type::string);
  a.s = value;
  return a;
}
Attribute integers(std::string_view name, const std::vector<int64_t>& values) {
  Attribute a = attribute(name, Attribute::Type::integers);
  a.integers = values;
  return a;
}

std::string Builder::unique(std::string_view name) {
  std::string candidate(name);
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

std::vector<std::string> Builder::nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                        std::vector<Attribute> attributes, int outputs, std::string_view name) {
  if (first_opset(op_type) > opset_) {
    throw ValueError(fmt::format("[onnx] the operator {} came with opset {}: it is not written at opset {}", op_type,
                                 first_opset(op_type), opset_));
  }
  format::Node node;
  node.op_type = op_type;
  node.inputs = inputs;
  node.attributes = std::move(attributes);
  node.name = unique(fmt::format("{}_{}", name, op_type));
  for (int i = 0; i < outputs; ++i)
    node.outputs.push_back(unique(outputs == 1 ? node.name + "_out" : fmt::format("{}_out{}", node.name, i)));
  graph_.nodes.push_back(node);
  return node.outputs;
}

std::string Builder::initializer(const NDArray& values, std::string_view name) {
  const std::string own = unique(name);
  format::Tensor t;
  t.name = own;
  t.type = format::element_type_of(values.dtype());
  t.dims.assign(values.shape().begin(), values.shape().end());
  graph_.initializers.push_back(std::move(t));
  arrays_.push_back(values);
  return own;
}

std::string Builder::constant(const std::vector<int64_t>& values) {
  std::string& name = constants_[values];
  if (name.empty() || how_ == Constants::apart) {
    name = initializer(NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64),
                       "constant");
  }
  return name;
}

std::string Builder::scalar(double value, DType dtype) {
  return initializer(NDArray::from(&value, 1, Shape(), dtype), "number");
}

std::string Emit::node(std::string_view op_type, const std::vector<std::string>& inputs,
                       std::vector<Attribute> attributes) {
  return builder_.nodes(op_type, inputs, std::move(attributes), 1, node_.name)[0];
}

std::string Emit::reshape(const std::string& x, const Shape& shape) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  const bool has_zero = std::find(dims.begin(), dims.end(), 0) != dims.end();
  std::vector<Attribute> attributes;
  if (has_zero) attributes.push_back(integer("allowzero", 1));
  return node("Reshape", {x, builder_.constant(dims)}, std::move(attributes));
}

std::string Emit::cast(const std::string& x, DType dtype) {
  return node("Cast", {x}, {integer("to", int64_t(format::element_type_of(dtype)))});
}

void Emit::fail(const std::string& what) const {
  throw ValueError(fmt::format("[onnx] node {} ({}): {} is not written", node_.name, node_.op->name(), what));
}

Writer find_writer(const OpDef& op) {
  for (const auto rows : {elementwise_writers(), layer_writers(), movement_writers(), recurrent_writers()}) {
    for (const WriterRow& row : rows) {
      if (row.op == &op) return row.write;
    }
  }
  return nullptr;
}

}  // namespace kaon::onnx::exporting

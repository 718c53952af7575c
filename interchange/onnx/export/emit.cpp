#include "kaon/interchange/onnx/export/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

using format::ElementType;

namespace {

Attribute attribute(std::string_view name, Attribute::Type type) {
  Attribute a;
  a.name = name;
  a.type = type;
  return a;
}

// The array's elements as raw_data.
format::Tensor as_tensor(const NDArray& array, const std::string& name) {
  format::Tensor t;
  t.name = name;
  t.type = format::element_type_of(array.dtype());
  t.dims.assign(array.shape().begin(), array.shape().end());
  auto own = std::make_shared<std::vector<std::byte>>(size_t(array.size()) * size_of(array.dtype()));
  const auto copy = [&]<class T>(T) {
    const NDArray values = array;
    const auto elements = values.data<const T>();
    if (!own->empty()) std::memcpy(own->data(), elements.data(), own->size());
  };
  switch (array.dtype()) {
    case DType::float32: copy(float()); break;
    case DType::float64: copy(double()); break;
    case DType::float16: copy(float16()); break;
    case DType::bfloat16: copy(bfloat16()); break;
    case DType::uint8: copy(uint8_t()); break;
    case DType::int8: copy(int8_t()); break;
    case DType::int16: copy(int16_t()); break;
    case DType::uint16: copy(uint16_t()); break;
    case DType::int32: copy(int32_t()); break;
    case DType::uint32: copy(uint32_t()); break;
    case DType::int64: copy(int64_t()); break;
    case DType::uint64: copy(uint64_t()); break;
    case DType::boolean: copy(bool()); break;
  }
  t.bytes = *own;
  t.keeper = own;
  return t;
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
  graph_.initializers.push_back(as_tensor(values, own));
  return own;
}

std::string Builder::constant(const std::vector<int64_t>& values) {
  std::string& name = constants_[values];
  if (name.empty()) {
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

#include "kaon/interchange/onnx/runtime/standard.h"

#include <fmt/format.h>

namespace kaon::onnx::convert {

using format::Attribute;

namespace {

constexpr int64_t kStandardVersion = 19;  // of the standard's operators

}  // namespace

Attribute attribute(std::string_view name, int64_t value) {
  Attribute a;
  a.name = name, a.type = Attribute::Type::integer, a.i = value;
  return a;
}

Attribute attribute(std::string_view name, double value) {
  Attribute a;
  a.name = name, a.type = Attribute::Type::float32, a.f = float(value);
  return a;
}

Attribute attribute(std::string_view name, std::string_view value) {
  Attribute a;
  a.name = name, a.type = Attribute::Type::string, a.s = value;
  return a;
}

Attribute attribute(std::string_view name, std::vector<int64_t> values) {
  Attribute a;
  a.name = name, a.type = Attribute::Type::integers, a.integers = std::move(values);
  return a;
}

std::vector<Value> standard_all(Call& c, std::string_view op_type, std::vector<Value> inputs,
                                std::vector<Attribute> attributes, int outputs) {
  const Converter convert = find_converter("", op_type, kStandardVersion);
  if (!convert) c.fail_supported(std::string(op_type));
  format::Node node;
  node.name = c.node().name;
  node.op_type = op_type;
  node.attributes = std::move(attributes);
  for (int i = 0; i < outputs; ++i) node.outputs.push_back(fmt::format("{}", i));
  Call inner(node, kStandardVersion, c.conversion(), std::move(inputs));
  convert(inner);
  return std::move(inner.outputs());
}

Value standard(Call& c, std::string_view op_type, std::vector<Value> inputs, std::vector<Attribute> attributes) {
  return standard_all(c, op_type, std::move(inputs), std::move(attributes))[0];
}

Value optional_input(const Call& c, int i) { return c.has(i) ? c.input(i) : Value(); }

std::vector<Attribute> same_attributes(const Call& c, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> all;
  for (std::string_view name : names) {
    if (const Attribute* a = c.node().find(name)) all.push_back(*a);
  }
  return all;
}

Value dequantised(Call& c, int i, int64_t axis) {
  return standard(c, "DequantizeLinear", {c.input(i), c.input(i + 1), optional_input(c, i + 2)},
                  {attribute("axis", axis)});
}

Value quantised(Call& c, const Value& numbers, int i, int like) {
  std::vector<Attribute> attributes;
  if (!c.has(i + 1)) attributes.push_back(attribute("output_dtype", int64_t(c.type(like))));
  return standard(c, "QuantizeLinear", {numbers, c.input(i), optional_input(c, i + 1)}, std::move(attributes));
}

}  // namespace kaon::onnx::convert

#include "kaon/interchange/onnx/convert/call.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"

namespace kaon::onnx::convert {

using format::Attribute;

Call::Call(const format::Node& node, int64_t opset, Conversion& conversion, std::vector<Value> inputs)
    : node_(node), opset_(opset), conversion_(conversion), inputs_(std::move(inputs)), outputs_(node.outputs.size()) {}

const Value& Call::input(int i) const {
  if (has(i)) return inputs_[size_t(i)];
  if (size_t(i) < node_.inputs.size() && !node_.inputs[size_t(i)].empty())
    fail(fmt::format("input {}, '{}', has no value", i, node_.inputs[size_t(i)]));
  fail(fmt::format("input {} is left out, which it must not be", i));
}

const Symbol& Call::x(int i) const {
  const Value& v = input(i);
  if (v.kind != Value::Kind::tensor) fail_supported(fmt::format("input {}, which is no tensor of numbers,", i));
  return v.symbol;
}

std::vector<int64_t> Call::integers(int i) const {
  x(i);
  return conversion_.read(input(i)).asvector<int64_t>();
}

std::vector<double> Call::numbers(int i) const {
  x(i);
  return conversion_.read(input(i)).asvector<double>();
}

double Call::number(int i) const {
  const std::vector<double> all = numbers(i);
  if (all.size() != 1) fail(fmt::format("input {} must have one element, got shape {}", i, shape(i).str()));
  return all[0];
}

const Attribute* Call::find(std::string_view attribute, Attribute::Type type) const {
  const Attribute* a = node_.find(attribute);
  if (a && a->type != type) {
    fail(fmt::format("attribute {} has type {}, expected {}", attribute, int(a->type), int(type)));
  }
  return a;
}

int64_t Call::integer(std::string_view attribute, int64_t otherwise) const {
  const Attribute* a = find(attribute, Attribute::Type::integer);
  return a ? a->i : otherwise;
}

double Call::real(std::string_view attribute, double otherwise) const {
  const Attribute* a = find(attribute, Attribute::Type::float32);
  return a ? double(a->f) : otherwise;
}

std::string Call::text(std::string_view attribute, std::string_view otherwise) const {
  const Attribute* a = find(attribute, Attribute::Type::string);
  return a ? a->s : std::string(otherwise);
}

std::vector<int64_t> Call::integers(std::string_view attribute, const std::vector<int64_t>& otherwise) const {
  const Attribute* a = find(attribute, Attribute::Type::integers);
  return a ? a->integers : otherwise;
}

std::vector<double> Call::reals(std::string_view attribute, const std::vector<double>& otherwise) const {
  const Attribute* a = find(attribute, Attribute::Type::floats);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : otherwise;
}

std::vector<std::string> Call::texts(std::string_view attribute) const {
  const Attribute* a = find(attribute, Attribute::Type::strings);
  return a ? a->strings : std::vector<std::string>();
}

const format::Graph& Call::graph(std::string_view attribute) const {
  const Attribute* a = find(attribute, Attribute::Type::graph);
  if (!a || a->graphs.empty()) fail(fmt::format("the attribute {} is missing", attribute));
  return *a->graphs[0];
}

int Call::axis(std::string_view attribute, int64_t otherwise, int rank) const {
  return axis(integer(attribute, otherwise), rank);
}

int Call::axis(int64_t axis, int rank) const {
  if (axis < -int64_t(rank) || axis >= rank) fail(fmt::format("axis {} of {} dimensions", axis, rank));
  return int(axis < 0 ? axis + rank : axis);
}

void Call::set(int i, Value value) {
  if (i < int(outputs_.size())) outputs_[size_t(i)] = std::move(value);
}

void Call::set_like(const Value& input, Symbol symbol) { set(0, Value::of(std::move(symbol), input.type)); }

void Call::fail(const std::string& why) const { throw ValueError(fmt::format("[onnx] {}: {}", node_.op_type, why)); }

void Call::fail_supported(const std::string& what) const { fail(what + " is not supported"); }

}  // namespace kaon::onnx::convert

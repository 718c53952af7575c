// Models as files, by the field numbers of onnx.proto.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::format {

namespace {

WireWriter as_message(const Graph& graph);

WireWriter as_message(const Tensor& t) {
  WireWriter w;
  w.integers(1, t.dims);
  w.integer(2, int64_t(t.type));
  for (const std::string& s : t.strings) w.text(6, s);
  w.text(8, t.name);
  if (t.type != ElementType::string) w.bytes(9, t.bytes);
  return w;
}

WireWriter as_message(const Attribute& a) {
  using T = Attribute::Type;
  WireWriter w;
  w.text(1, a.name);
  switch (a.type) {
    case T::float32: w.float32(2, a.f); break;
    case T::integer: w.integer(3, a.i); break;
    case T::string: w.text(4, a.s); break;
    case T::tensor: w.message(5, as_message(a.tensors.at(0))); break;
    case T::graph: w.message(6, as_message(*a.graphs.at(0))); break;
    case T::floats:
      for (float f : a.floats) w.float32(7, f);
      break;
    case T::integers:
      for (int64_t i : a.integers) w.integer(8, i);
      break;
    case T::strings:
      for (const std::string& s : a.strings) w.text(9, s);
      break;
    default: throw ValueError(fmt::format("[onnx] the attribute {} of type {} cannot be written", a.name, int(a.type)));
  }
  w.integer(20, int64_t(a.type));
  return w;
}

WireWriter as_message(const Node& n) {
  WireWriter w;
  for (const std::string& s : n.inputs) w.text(1, s);
  for (const std::string& s : n.outputs) w.text(2, s);
  w.text(3, n.name);
  w.text(4, n.op_type);
  for (const Attribute& a : n.attributes) w.message(5, as_message(a));
  if (!n.domain.empty()) w.text(7, n.domain);
  return w;
}

WireWriter as_message(const ValueInfo& info) {
  WireWriter tensor;
  tensor.integer(1, int64_t(info.type));
  if (info.has_shape) {
    WireWriter shape;
    for (const Dimension& d : info.dims) {
      WireWriter dim;
      if (d.value >= 0) dim.integer(1, d.value);
      else if (!d.name.empty()) dim.text(2, d.name);
      shape.message(1, dim);
    }
    tensor.message(2, shape);
  }
  WireWriter type, w;
  type.message(1, tensor);
  w.text(1, info.name);
  w.message(2, type);
  return w;
}

WireWriter as_message(const Graph& graph) {
  WireWriter w;
  for (const Node& n : graph.nodes) w.message(1, as_message(n));
  w.text(2, graph.name);
  for (const Tensor& t : graph.initializers) w.message(5, as_message(t));
  for (const ValueInfo& v : graph.inputs) w.message(11, as_message(v));
  for (const ValueInfo& v : graph.outputs) w.message(12, as_message(v));
  return w;
}

}  // namespace

std::string write_model(const Model& model) {
  WireWriter w;
  w.integer(1, model.ir_version);
  w.text(2, model.producer);
  w.text(3, model.producer_version);
  w.message(7, as_message(model.graph));
  for (const auto& [domain, version] : model.opsets) {
    WireWriter opset;
    opset.text(1, domain);
    opset.integer(2, version);
    w.message(8, opset);
  }
  return w.data();
}

}  // namespace kaon::onnx::format

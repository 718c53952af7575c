// Models as files, by the field numbers of onnx.proto.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::format {

namespace {

WireWriter as_message(const Graph& graph);

constexpr size_t kAlignment = 64;  // of elements in the file, so that readers use them where they are

WireWriter without_elements(const Tensor& t) {
  WireWriter w;
  w.integers(1, t.dims);
  w.integer(2, int64_t(t.type));
  for (const std::string& s : t.strings) w.text(6, s);
  w.text(8, t.name);
  return w;
}

WireWriter entry(std::string_view key, std::string_view value) {
  WireWriter w;
  w.text(1, key);
  w.text(2, value);
  return w;
}

WireWriter as_message(const Tensor& t) {
  WireWriter w = without_elements(t);
  if (!t.location.empty()) {
    w.message(13, entry("location", t.location));
    w.message(13, entry("offset", std::to_string(t.external_offset)));
    w.message(13, entry("length", std::to_string(t.external_length)));
    w.integer(14, 1);  // EXTERNAL
    return w;
  }
  if (t.type != ElementType::string) w.bytes(9, t.bytes);
  return w;
}

// The tensor as the next field of a message whose own next byte is byte `at` of the file. A text of spaces, which the
// format has for people (doc_string), moves the elements to a multiple of 64 bytes.
WireWriter as_aligned_message(const Tensor& t, uint32_t field, size_t at) {
  const WireWriter head = without_elements(t);
  if (t.type == ElementType::string || !t.location.empty() || t.bytes.size() < kAlignment) return as_message(t);
  const size_t key = WireWriter::varint_size(uint64_t(field) << 3);
  const size_t elements = 1 + WireWriter::varint_size(t.bytes.size());  // in front of them
  const auto is_aligned = [&](size_t padding) {
    const size_t before = head.data().size() + padding + elements;
    return (at + key + WireWriter::varint_size(before + t.bytes.size()) + before) % kAlignment == 0;
  };
  WireWriter w = head;
  if (!is_aligned(0)) {
    size_t spaces = 0;
    while (!is_aligned(spaces + 2) && spaces < 2 * kAlignment - 1) ++spaces;  // and two bytes in front of them
    w.text(12, std::string(spaces, ' '));
  }
  w.bytes(9, t.bytes);
  return w;
}

WireWriter as_message(const Tensor& values, const Tensor& indices, const std::vector<int64_t>& dims) {
  WireWriter w;
  w.message(1, as_message(values));
  w.message(2, as_message(indices));
  w.integers(3, dims);
  return w;
}

WireWriter as_message(const Attribute& a) {
  using T = Attribute::Type;
  WireWriter w;
  w.text(1, a.name);
  if (!a.reference.empty()) {  // its value is that of an attribute of the function
    w.integer(20, int64_t(a.type));
    w.text(21, a.reference);
    return w;
  }
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
    case T::tensors:
      for (const Tensor& t : a.tensors) w.message(10, as_message(t));
      break;
    case T::graphs:
      for (const auto& g : a.graphs) w.message(11, as_message(*g));
      break;
    case T::type_proto:
      if (a.info.as_read) w.bytes(14, *a.info.as_read);
      break;
    case T::sparse_tensor:
      if (a.sparse.size() == 2) w.message(22, as_message(a.sparse[0], a.sparse[1], a.sparse_dims));
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
  if (!n.overload.empty()) w.text(8, n.overload);
  return w;
}

WireWriter type_of(const ValueInfo& info) {
  WireWriter tensor, type;
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
  type.message(1, tensor);
  return type;
}

WireWriter as_message(const ValueInfo& info) {
  WireWriter w;
  w.text(1, info.name);
  if (info.as_read) w.bytes(2, *info.as_read);
  else if (info.type != ElementType::undefined) w.message(2, type_of(info));  // values of bodies need no type
  return w;
}

// `begin`: where the message begins in the file; nothing: inside of another graph.
WireWriter as_message(const Graph& graph, std::optional<size_t> begin) {
  WireWriter w;
  for (const Node& n : graph.nodes) w.message(1, as_message(n));
  w.text(2, graph.name);
  for (const Tensor& t : graph.initializers) {
    w.message(5, begin ? as_aligned_message(t, 5, *begin + w.data().size()) : as_message(t));
  }
  for (const ValueInfo& v : graph.inputs) w.message(11, as_message(v));
  for (const ValueInfo& v : graph.outputs) w.message(12, as_message(v));
  for (const ValueInfo& v : graph.value_infos) w.message(13, as_message(v));
  for (const SparseTensor& t : graph.sparse_initializers) w.message(15, as_message(t.values, t.indices, t.dims));
  return w;
}

WireWriter as_message(const Graph& graph) { return as_message(graph, std::nullopt); }

WireWriter opset(const std::string& domain, int64_t version) {
  WireWriter w;
  w.text(1, domain);
  w.integer(2, version);
  return w;
}

WireWriter as_message(const Function& f) {
  WireWriter w;
  w.text(1, f.name);
  for (const std::string& s : f.inputs) w.text(4, s);
  for (const std::string& s : f.outputs) w.text(5, s);
  for (const std::string& s : f.attributes) w.text(6, s);
  for (const Node& n : f.nodes) w.message(7, as_message(n));
  for (const auto& [domain, version] : f.opsets) w.message(9, opset(domain, version));
  w.text(10, f.domain);
  for (const Attribute& a : f.defaults) w.message(11, as_message(a));
  if (!f.overload.empty()) w.text(13, f.overload);
  return w;
}

}  // namespace

std::string write_model(const Model& model) {
  WireWriter w;
  w.integer(1, model.ir_version);
  w.text(2, model.producer);
  w.text(3, model.producer_version);
  // the graph begins behind its length, which takes more bytes the longer the graph is
  size_t length = 0;
  for (const Tensor& t : model.graph.initializers) length += t.bytes.size();
  for (size_t bytes = WireWriter::varint_size(length);; ++bytes) {
    const WireWriter graph = as_message(model.graph, w.data().size() + 1 + bytes);
    if (WireWriter::varint_size(graph.data().size()) > bytes) continue;
    w.message(7, graph);
    break;
  }
  for (const auto& [domain, version] : model.opsets) w.message(8, opset(domain, version));
  for (const auto& [key, value] : model.metadata) w.message(14, entry(key, value));
  for (const Function& f : model.functions) w.message(25, as_message(f));
  return w.data();
}

}  // namespace kaon::onnx::format

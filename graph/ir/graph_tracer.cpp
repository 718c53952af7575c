#include "kaon/graph/ir/graph_tracer.h"

#include <fmt/format.h>

#include "kaon/ops/array/array_node.h"

namespace kaon::graph {
namespace {

struct TraceValue : Annotation, Pooled {
  explicit TraceValue(ValueId id) : Annotation(Kind::trace), id(id) {}
  ValueId id;
};

void annotate(const NDArray& a, ValueId v) { a.node().annotation = IntrusivePtr<Annotation>(new TraceValue(v)); }

}  // namespace

GraphTracer::Scope::Scope(GraphTracer& tracer) : saved_(thread_context()) {
  thread_context().interceptor = static_cast<Interceptor*>(&tracer);
  thread_context().recording = false;
}

NDArray GraphTracer::array(ValueId v) {
  const TensorMeta& m = graph_.meta(v);
  NDArray a(IntrusivePtr<ArrayNode>(new ArrayNode(nullptr, m.shape, m.dtype)));
  annotate(a, v);
  return a;
}

ValueId GraphTracer::value(const NDArray& a) {
  const Annotation* place = a.node().annotation.get();
  if (place && place->kind == Annotation::Kind::trace) return static_cast<const TraceValue*>(place)->id;
  Node n;
  n.constant = a;
  n.name = fmt::format("constant{}", graph_.nodes.size());
  n.outputs = {{a.shape(), a.dtype()}};
  return graph_.add(std::move(n));
}

std::vector<NDArray> GraphTracer::add_outputs(ValueId v, Attributes attrs, std::span<const TensorMeta> more) {
  std::vector<TensorMeta>& outputs = graph_.nodes[v.node].outputs;
  const uint32_t first = uint32_t(outputs.size());
  graph_.nodes[v.node].attrs = std::move(attrs);
  outputs.insert(outputs.end(), more.begin(), more.end());
  std::vector<NDArray> arrays;
  for (uint32_t i = first; i < outputs.size(); ++i) arrays.push_back(array({v.node, i}));
  return arrays;
}

void GraphTracer::on_call(OpCall& call) {
  Node n;
  n.op = &call.def;
  n.attrs = Attributes(call.def, call.attrs);
  n.name = fmt::format("{}{}", name, graph_.nodes.size());
  n.phase = phase_;
  for (const NDArray* i : call.inputs) n.inputs.push_back(value(*i));
  if (gradient_of) ++step;
  for (const NDArray& o : call.outputs) {
    const uint32_t k = uint32_t(n.outputs.size());
    n.outputs.push_back({o.shape(), o.dtype()});
    if (gradient_of) n.provenance.push_back({.output = k, .node = *gradient_of, .step = step, .result = k});
  }
  const ValueId v = graph_.add(std::move(n));
  for (size_t i = 0; i < call.outputs.size(); ++i) annotate(call.outputs[i], {v.node, uint32_t(i)});
}

}  // namespace kaon::graph

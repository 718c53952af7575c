#include "kaon/graph/ir/update.h"

#include "kaon/graph/ir/graph_tracer.h"
#include "kaon/ops/functions.h"

namespace kaon::graph {

Graph with_ones_for_heads(Graph graph, size_t program_inputs) {
  for (size_t i = program_inputs; i < graph.inputs.size(); ++i) {
    Node& head = graph.nodes[graph.inputs[i]];
    head.constant = nd.ones(head.outputs[0].shape, {.dtype = head.outputs[0].dtype});
  }
  graph.inputs.resize(program_inputs);
  return graph;
}

Graph with_update(Graph graph, const Update& update) {
  const std::vector<ValueId> gradients(graph.outputs.begin() + graph.num_forward_outputs, graph.outputs.end());
  graph.outputs.resize(graph.num_forward_outputs);
  for (const uint32_t weight : update.returned) graph.outputs.push_back(gradients[weight]);
  graph.num_forward_outputs = uint32_t(graph.outputs.size());
  for (Node& node : graph.nodes) node.phase = Phase::forward;
  GraphTracer tracer(graph, Phase::forward);
  tracer.name = "update";
  std::vector<NDArray> arrays;
  auto add_input = [&](size_t i) { arrays.push_back(tracer.array({graph.inputs[i], 0})); };
  size_t state = update.first_state, gradient = 0;
  for (size_t i = 0; i < update.wanted.size(); ++i) {
    if (!update.wanted[i]) continue;
    add_input(i);
    arrays.push_back(tracer.array(gradients[gradient++]));
    for (int k = 0; k < update.num_states; ++k) add_input(state++);
  }
  for (size_t k = 0; k < update.num_shared; ++k) add_input(state + k);
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const GraphTracer::Scope scope(tracer);
  update.apply(pointers);
  return graph;
}

}  // namespace kaon::graph

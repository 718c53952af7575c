#include "kaon/graph/ir/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kaon/graph/ir/graph_tracer.h"
#include "kaon/graph/ir/rewrite.h"

namespace kaon {
namespace {

class Context final : public GradContext {
 public:
  Context(GraphTracer& tracer, const Node& node, uint32_t number, std::span<const NDArray> heads,
          std::vector<bool> wants)
      : heads_(heads), wants_(std::move(wants)) {
    for (ValueId v : node.inputs) inputs_.push_back(tracer.array(v));
    for (uint32_t i = 0; i < node.outputs.size(); ++i) outputs_.push_back(tracer.array({number, i}));
    zeros_.resize(heads.size());
    result.resize(node.inputs.size());
  }
  int num_inputs() const override { return int(inputs_.size()); }
  const NDArray& input(int i) const override { return inputs_[size_t(i)]; }
  const NDArray& output(int i) const override { return outputs_[size_t(i)]; }
  const NDArray& input_like(int i) const override { return inputs_[size_t(i)]; }
  const NDArray& head(int i) const override {
    if (has_head(i)) return heads_[size_t(i)];
    NDArray& z = zeros_[size_t(i)];
    // A constant, as in the imperative run: made from the output, it would seem to depend on what is wanted.
    if (!z.defined()) z = nd.zeros(output(i).shape(), {.dtype = output(i).dtype()});
    return z;
  }
  bool has_head(int i) const override { return heads_[size_t(i)].defined(); }
  bool wants(int i) const override { return wants_[size_t(i)]; }
  void set(int i, NDArray g) override { result[size_t(i)] = std::move(g); }

  std::vector<NDArray> result;

 private:
  std::span<const NDArray> heads_;
  std::vector<bool> wants_;
  std::vector<NDArray> inputs_, outputs_;
  mutable std::vector<NDArray> zeros_;
};

// Which nodes gradients flow through: from the wanted inputs forwards.
std::vector<bool> flow_from(const Graph& graph, const std::vector<bool>& wanted) {
  std::vector<bool> flows(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i) flows[graph.inputs[i]] = wanted[i];
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op || node.is_detached) continue;
    flows[n] = std::any_of(node.inputs.begin(), node.inputs.end(),
                           [&](ValueId v) { return flows[v.node] && is_floating(graph.meta(v).dtype); });
  }
  return flows;
}

// Inputs that are updated, as copies.
Graph update_copies(Graph graph, bool training) {
  const std::vector<bool> updated = passes::updated_nodes(graph, training);
  passes::Rewriter out(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    out.keep(i);
    if (!updated[i] || !graph.nodes[i].is_input()) continue;
    Node copy;
    passes::set_operator(copy, Copy{});
    copy.name = graph.nodes[i].name + "_copy";
    copy.inputs = {out.now({i, 0})};
    copy.outputs = graph.nodes[i].outputs;
    out.replace(i, std::move(copy));
  }
  Graph result = out.finish();
  for (uint32_t& i : result.inputs) {
    if (!result.nodes[i].is_input()) i = result.nodes[i].inputs[0].node;
  }
  return result;
}

// The node of the traced program whose gradient is taken here. None where calls were merged: they have one gradient,
// the program has one for each.
std::optional<uint32_t> traced_node(const Node& node) {
  if (node.provenance.empty()) return {};
  const uint32_t first = node.provenance[0].node;
  for (const Provenance& o : node.provenance) {
    if (o.node != first || o.step != 0) return {};
  }
  return first;
}

}  // namespace

void refuse_gradient(const OpDef& op) {
  constexpr std::string_view rule = "_backward_";
  if (op.name().starts_with(rule)) {
    throw StateError(fmt::format("[{}] has no gradient: gradients of gradients do not go through {}", op.name(),
                                 op.name().substr(rule.size())));
  }
  throw StateError(
      fmt::format("[{}] has no gradient: put stop_gradient before it if none is to flow through it", op.name()));
}

std::vector<bool> inputs_updated_in_copies(const Graph& gradients, bool training) {
  const std::vector<bool> updated = passes::updated_nodes(gradients, training);
  std::vector<bool> is_read(gradients.nodes.size(), false), is_copied(gradients.nodes.size(), false);
  for (size_t i = 0; i < gradients.nodes.size(); ++i) {
    const Node& n = gradients.nodes[i];
    for (ValueId v : n.inputs) (n.op == &Copy::def && updated[i] ? is_copied : is_read)[v.node] = true;
  }
  for (ValueId v : gradients.outputs) is_read[v.node] = true;
  std::vector<bool> result;
  for (uint32_t i : gradients.inputs) result.push_back(is_copied[i] && !is_read[i]);
  return result;
}

std::vector<bool> recorded_outputs(const Graph& program, const std::vector<bool>& wanted) {
  const std::vector<bool> flows = flow_from(program, wanted);
  std::vector<bool> recorded;
  for (ValueId v : program.outputs) recorded.push_back(flows[v.node] && is_floating(program.meta(v).dtype));
  return recorded;
}

std::vector<std::string> refused_gradients(const Graph& program, const std::vector<bool>& wanted) {
  std::vector<std::string> why(program.num_forward_outputs);
  for (size_t i = 0; i < why.size(); ++i) {
    GradientForm form{.refused = std::vector<bool>(why.size(), true)};
    form.refused[i] = false;
    try {
      with_gradient(program, wanted, form);
    } catch (const StateError& e) {
      why[i] = e.what();
    }
  }
  return why;
}

Graph gradient_graph(Graph program, const std::vector<bool>& wanted, GradientForm form, bool training) {
  Graph g = with_gradient(update_copies(std::move(program), training), wanted, form);
  g.outputs.erase(g.outputs.begin(), g.outputs.begin() + g.num_forward_outputs);
  g.num_forward_outputs = uint32_t(g.outputs.size());
  for (Node& n : g.nodes) n.phase = Phase::forward;
  return g;
}

Graph with_gradient(Graph graph, const std::vector<bool>& wanted, GradientForm& form) {
  const size_t forward_nodes = graph.nodes.size();
  const std::vector<bool> flows = flow_from(graph, wanted);
  GraphTracer tracer(graph, Phase::backward);
  const GraphTracer::Scope scope(tracer);
  // heads[n][i]: what has arrived at output i of node n
  std::vector<std::vector<NDArray>> heads(forward_nodes);
  for (size_t n = 0; n < forward_nodes; ++n) heads[n].resize(graph.nodes[n].outputs.size());
  auto send = [&](ValueId v, NDArray g) {
    NDArray& sum = heads[v.node][v.output];
    sum = sum.defined() ? nd.elemwise_add(sum, g) : std::move(g);
  };
  auto add_input = [&](std::string name, ValueId like) {
    Node node;
    node.name = std::move(name);
    node.outputs = {graph.meta(like)};
    node.phase = Phase::backward;
    const ValueId v = graph.add(std::move(node));
    graph.inputs.push_back(v.node);
    return v;
  };
  tracer.name = "head_grad";
  for (size_t i = 0; i < graph.num_forward_outputs; ++i) {
    if (!form.heads.empty() && !form.heads[i]) continue;
    ValueId output = graph.outputs[i];
    ValueId v = add_input(fmt::format("head_grad{}", i), output);
    const bool is_refused = !form.refused.empty() && form.refused[i];
    if (is_floating(graph.meta(v).dtype) && !is_refused) send(output, tracer.array(v));
  }
  const size_t num_inputs = wanted.size();
  for (size_t i = 0; i < num_inputs && !form.sums.empty(); ++i) {
    if (!form.sums[i]) continue;
    const ValueId input{graph.inputs[i], 0};
    // first: an output that is this very input has sent its head already, which a sum does not mind
    send(input, tracer.array(add_input(fmt::format("sum{}", i), input)));
  }
  for (size_t k = forward_nodes; k-- > 0;) {
    if (!flows[k] || !graph.nodes[k].op) continue;
    if (std::none_of(heads[k].begin(), heads[k].end(), [](const NDArray& h) { return h.defined(); })) continue;
    Node node = graph.nodes[k];  // a copy: the tracer appends to graph.nodes
    if (node.op->traits.flat) continue;
    if (lacks_gradient(*node.op)) refuse_gradient(*node.op);
    tracer.name = node.name + "_grad";
    std::vector<bool> wants;
    for (ValueId v : node.inputs) wants.push_back(flows[v.node] && is_floating(graph.meta(v).dtype));
    Context context(tracer, node, uint32_t(k), heads[k], wants);
    tracer.gradient_of = traced_node(node);
    tracer.step = 0;
    node.op->grad(node.attrs.get(), context);
    tracer.gradient_of.reset();  // sums of what arrives from several readers are in another order where passes have run
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (context.result[i].defined() && wants[i]) send(node.inputs[i], std::move(context.result[i]));
    }
  }
  form.reached.assign(num_inputs, false);
  for (size_t i = 0; i < num_inputs; ++i) {
    if (!wanted[i]) continue;
    NDArray& g = heads[graph.inputs[i]][0];
    const TensorMeta& m = graph.nodes[graph.inputs[i]].outputs[0];
    form.reached[i] = g.defined();
    if (!g.defined()) g = nd.zeros(m.shape, {.dtype = m.dtype});
    graph.outputs.push_back(tracer.value(g));
  }
  return graph;
}

}  // namespace kaon

#include "kaon/graph/ir/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kaon/graph/ir/graph_tracer.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/ir/tape.h"
#include "kaon/ops/array/row_gradient.h"

namespace kaon::graph {
namespace {

// What has arrived at a value in the backward.
struct Arrival {
  NDArray gradient;  // undefined: nothing
  // Undefined where a gradient arrives in every run. Else one element, 0 in a run in which none arrives; `gradient`
  // then holds zeros, or anything if is_masked is false: a rule that was given zeros may divide 0 by 0, and an output
  // layer gives its own gradient whatever arrives.
  NDArray presence;
  bool is_masked = true;

  bool is_there() const { return gradient.defined(); }
  bool is_present_like(const Arrival& other) const { return presence.ptr() == other.presence.ptr(); }
  NDArray masked() const {
    if (is_masked || !presence.defined()) return gradient;
    const Shape row(1, gradient.size());  // which a condition of one element chooses as a whole
    const NDArray g = nd._reshape_to(gradient, {.shape = row});
    const NDArray chosen = nd.where(presence, g, nd.zeros(row, {.dtype = g.dtype()}));
    return nd._reshape_to(chosen, {.shape = gradient.shape()});
  }
  void add_presence(const NDArray& other) {
    presence = presence.defined() && other.defined() ? nd.maximum(presence, other) : NDArray();
  }
  // For a value that is reached (see Reach): zeros arrive there, in the runs that `other` tells.
  void add_zeros(const TensorMeta& meta, const NDArray& other) {
    if (!is_there()) {
      *this = {.gradient = nd.zeros(meta.shape, {.dtype = meta.dtype}), .presence = other};
    } else if (presence.ptr() != other.ptr()) {
      gradient = masked();
      is_masked = true;
      add_presence(other);
    }
  }
  void add(Arrival more) {
    if (!is_there()) {
      *this = std::move(more);
    } else if (is_present_like(more)) {
      gradient = nd.elemwise_add(gradient, more.gradient);
      is_masked = is_masked && more.is_masked;
    } else {
      gradient = nd.elemwise_add(masked(), more.masked());
      is_masked = true;
      add_presence(more.presence);
    }
  }
};

// Whether the backward comes to a value. Its readers may send no gradient, because theirs is zero; an output layer
// gives its own even then. `presence`: as an Arrival's.
struct Reach {
  bool is_there = false;
  NDArray presence;

  void add(const NDArray& other) {
    if (!is_there) {
      presence = other;
    } else if (presence.ptr() != other.ptr()) {
      presence = presence.defined() && other.defined() ? nd.maximum(presence, other) : NDArray();
    }
    is_there = true;
  }
};

// The heads of one node.
struct ArrivedHeads {
  std::vector<NDArray> gradients, presences;  // by output; undefined as in Arrival
  Arrival any;                                // its presence is that of some head; without a gradient

  explicit ArrivedHeads(std::span<const Arrival> arrivals) {
    const Arrival* first = nullptr;
    bool alike = true;
    for (const Arrival& a : arrivals) {
      if (!a.is_there()) continue;
      if (!first) any.presence = a.presence;
      if (!first) first = &a;
      if (a.is_present_like(*first)) continue;
      alike = false;
      any.add_presence(a.presence);
    }
    for (const Arrival& a : arrivals) {
      gradients.push_back(a.is_there() && !alike ? a.masked() : a.gradient);
      presences.push_back(a.presence);
    }
  }
};

// Rows of a gradient, the newest call's first.
struct ArrivedRows {
  std::vector<NDArray> values, indices;

  bool are_there() const { return !values.empty(); }
  NDArray all(const std::vector<NDArray>& parts) const {
    return parts.size() == 1 ? parts[0] : nd.concat(parts, {.dim = 0});
  }
  NDArray dense(const Shape& shape) const {
    NDArray sum;
    for (size_t i = 0; i < values.size(); ++i) {
      const NDArray g = nd._backward_take(values[i], indices[i], {.shape = shape, .axis = 0, .mode = IndexMode::clip});
      sum = sum.defined() ? nd.elemwise_add(sum, g) : g;
    }
    return sum;
  }
};

class Context final : public ops::RowGradContext {
 public:
  // `takes_rows`: by input.
  Context(GraphTracer& tracer, const Node& node, uint32_t number, const ArrivedHeads& heads, std::vector<bool> wants,
          std::vector<bool> takes_rows)
      : heads_(heads), wants_(std::move(wants)), takes_rows_(std::move(takes_rows)) {
    for (ValueId v : node.inputs) inputs_.push_back(tracer.array(v));
    for (uint32_t i = 0; i < node.outputs.size(); ++i) outputs_.push_back(tracer.array({number, i}));
    zeros_.resize(node.outputs.size());
    result.resize(node.inputs.size());
  }
  int num_inputs() const override { return int(inputs_.size()); }
  const NDArray& input(int i) const override { return inputs_[size_t(i)]; }
  const NDArray& output(int i) const override { return outputs_[size_t(i)]; }
  const NDArray& input_like(int i) const override { return inputs_[size_t(i)]; }
  const NDArray& head(int i) const override {
    if (has_head(i)) return heads_.gradients[size_t(i)];
    NDArray& z = zeros_[size_t(i)];
    // A constant, as in the imperative run: made from the output, it would seem to depend on what is wanted.
    if (!z.defined()) z = nd.zeros(output(i).shape(), {.dtype = output(i).dtype()});
    return z;
  }
  bool has_head(int i) const override { return heads_.gradients[size_t(i)].defined(); }
  bool wants(int i) const override { return wants_[size_t(i)]; }
  void set(int i, NDArray g) override {
    result[size_t(i)] = {
        .gradient = std::move(g), .presence = heads_.any.presence, .is_masked = !heads_.any.presence.defined()};
  }
  NDArray presence(int i) const override { return heads_.presences[size_t(i)]; }
  void set_sometimes(int i, NDArray g, NDArray presence) override {
    result[size_t(i)] = {.gradient = std::move(g), .presence = std::move(presence)};
  }

  bool takes_rows(int i) const override { return takes_rows_[size_t(i)] && !heads_.any.presence.defined(); }
  void set_rows(int i, NDArray values, NDArray indices) override {
    rows.push_back({size_t(i), std::move(values), std::move(indices)});
  }
  void set_rows_read(int, NDArray) override {}  // a graph gives rows or a whole gradient, not both

  std::vector<Arrival> result;
  std::vector<RowPart> rows;

 private:
  const ArrivedHeads& heads_;
  std::vector<bool> wants_, takes_rows_;
  std::vector<NDArray> inputs_, outputs_;
  mutable std::vector<NDArray> zeros_;
};

// Which values gradients flow through, by node and output: from the wanted inputs forwards.
using Flow = std::vector<std::vector<bool>>;
Flow flow_from(const Graph& graph, const std::vector<bool>& wanted) {
  Flow flows(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) flows[n].assign(graph.nodes[n].outputs.size(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i) flows[graph.inputs[i]][0] = wanted[i];
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op || node.is_detached) continue;
    std::vector<bool> from;
    for (ValueId v : node.inputs)
      from.push_back(flows[v.node][v.output] && autograd::has_gradient(graph.meta(v).dtype));
    if (std::find(from.begin(), from.end(), true) == from.end()) continue;
    if (node.op->computed_from) {
      std::vector<TensorMeta> metas;
      for (ValueId v : node.inputs) metas.push_back(graph.meta(v));
      flows[n] = node.op->computed_from(node.attrs.get(), metas, std::move(from));
    } else {
      flows[n].assign(node.outputs.size(), true);
    }
  }
  return flows;
}
bool flows_through(const std::vector<bool>& outputs) {
  return std::find(outputs.begin(), outputs.end(), true) != outputs.end();
}

// By node: is it an output layer with a gradient of its own, or computed from one? `inputs`: those that are.
std::vector<bool> with_own_gradients(const Graph& graph, const Flow& flows, const std::vector<bool>& inputs) {
  std::vector<bool> own(graph.nodes.size());
  for (size_t i = 0; i < inputs.size(); ++i) own[graph.inputs[i]] = inputs[i];
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op || !flows_through(flows[n])) continue;
    own[n] = node.op->traits_of(node.attrs.get()).ignores_head ||
             std::ranges::any_of(node.inputs, [&](ValueId v) { return own[v.node] && flows[v.node][v.output]; });
  }
  return own;
}

// Inputs that are updated, as copies.
Graph update_copies(Graph graph, bool training) {
  const std::vector<bool> updated = passes::updated_nodes(graph, training);
  passes::Rewriter out(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    out.keep(i);
    if (!updated[i] || !graph.nodes[i].is_input()) continue;
    Node copy;
    passes::set_operator(copy, op::Copy{});
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
    for (ValueId v : n.inputs) (n.op == &op::Copy::def && updated[i] ? is_copied : is_read)[v.node] = true;
  }
  for (ValueId v : gradients.outputs) is_read[v.node] = true;
  std::vector<bool> result;
  for (uint32_t i : gradients.inputs) result.push_back(is_copied[i] && !is_read[i]);
  return result;
}

std::vector<bool> recorded_outputs(const Graph& program, const std::vector<bool>& wanted) {
  const Flow flows = flow_from(program, wanted);
  std::vector<bool> recorded;
  for (ValueId v : program.outputs)
    recorded.push_back(flows[v.node][v.output] && autograd::has_gradient(program.meta(v).dtype));
  return recorded;
}

std::vector<bool> own_gradients(const Graph& program, const std::vector<bool>& wanted) {
  const Flow flows = flow_from(program, wanted);
  const std::vector<bool> own = with_own_gradients(program, flows, {});
  std::vector<bool> result;
  for (ValueId v : program.outputs) result.push_back(own[v.node] && flows[v.node][v.output]);
  return result;
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
  form.keeps = training;
  Graph g = with_gradient(update_copies(std::move(program), training), wanted, form);
  g.outputs.erase(g.outputs.begin(), g.outputs.begin() + g.num_forward_outputs);
  g.num_forward_outputs = uint32_t(g.outputs.size());
  for (Node& n : g.nodes) n.phase = Phase::forward;
  return g;
}

GradientForm gradient_form(const Graph& program, const std::vector<bool>& wanted, GradientForm form) {
  with_gradient(program, wanted, form);
  return form;
}

size_t num_gradient_outputs(const std::vector<bool>& wanted, const GradientForm& form) {
  size_t n = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    const bool has_rows = !form.rows.empty() && form.rows[i];
    n += has_rows ? 2 * size_t(form.arrives[i] != Arrives::never) : 1;
    n += form.reports && form.arrives[i] == Arrives::sometimes;
  }
  return n;
}

std::vector<Arrives> arrivals(const std::vector<bool>& heads) {
  std::vector<Arrives> all;
  for (bool arrives : heads) all.push_back(arrives ? Arrives::always : Arrives::never);
  return all;
}

Graph with_gradient(Graph graph, const std::vector<bool>& wanted, GradientForm& form) {
  const size_t forward_nodes = graph.nodes.size();
  const Flow flows = flow_from(graph, wanted);
  const std::vector<bool> own = with_own_gradients(graph, flows, form.own);
  std::vector<std::vector<Reach>> reached(forward_nodes);  // by node and output
  GraphTracer tracer(graph, Phase::backward);
  const GraphTracer::Scope scope(tracer);
  std::vector<std::vector<Arrival>> arrived(forward_nodes);  // by node and output
  for (size_t n = 0; n < forward_nodes; ++n) {
    arrived[n].resize(graph.nodes[n].outputs.size());
    reached[n].resize(graph.nodes[n].outputs.size());
  }
  std::vector<ArrivedRows> rows(wanted.size());  // by input
  auto input_with_rows = [&](ValueId v) -> std::optional<size_t> {
    for (size_t i = 0; i < form.rows.size(); ++i) {
      if (form.rows[i] && graph.inputs[i] == v.node) return i;
    }
    return {};
  };
  auto send = [&](ValueId v, Arrival a) { arrived[v.node][v.output].add(std::move(a)); };
  auto add_input = [&](std::string name, TensorMeta meta) {
    Node node;
    node.name = std::move(name);
    node.outputs = {std::move(meta)};
    node.phase = Phase::backward;
    const ValueId v = graph.add(std::move(node));
    graph.inputs.push_back(v.node);
    return tracer.array(v);
  };
  tracer.keeps = form.keeps;
  tracer.name = "head_grad";
  const size_t num_inputs = wanted.size(), num_heads = graph.num_forward_outputs;
  auto head_arrives = [&](size_t i) { return form.heads.empty() ? Arrives::always : form.heads[i]; };
  std::vector<Arrival> heads(num_heads);
  for (size_t i = 0; i < num_heads; ++i) {
    if (head_arrives(i) == Arrives::never) continue;
    heads[i].gradient = add_input(fmt::format("head_grad{}", i), graph.meta(graph.outputs[i]));
  }
  for (size_t i = 0; i < num_heads; ++i) {
    if (head_arrives(i) != Arrives::sometimes) continue;
    heads[i].presence = add_input(fmt::format("head_presence{}", i), {Shape(1), DType::uint8});
  }
  for (size_t i = 0; i < num_heads; ++i) {
    const bool is_refused = !form.refused.empty() && form.refused[i];
    if (heads[i].is_there() && autograd::has_gradient(heads[i].gradient.dtype()) && !is_refused) {
      send(graph.outputs[i], heads[i]);
    }
  }
  NDArray absent;  // the presence of the sums, which are no arrivals
  for (size_t i = 0; i < num_inputs && !form.sums.empty(); ++i) {
    if (!form.sums[i]) continue;
    const ValueId input{graph.inputs[i], 0};
    if (!absent.defined()) absent = nd.zeros(Shape(1), {.dtype = DType::uint8});
    // first: an output that is this very input has sent its head already, which a sum does not mind
    send(input, {.gradient = add_input(fmt::format("sum{}", i), graph.meta(input)), .presence = absent});
  }
  for (size_t k = forward_nodes; k-- > 0;) {
    if (!flows_through(flows[k]) || !graph.nodes[k].op) continue;
    Reach here;
    for (const Reach& r : reached[k]) {
      if (r.is_there) here.add(r.presence);
    }
    const bool arrives = std::ranges::any_of(arrived[k], &Arrival::is_there);
    if (!arrives && !here.is_there) continue;
    Node node = graph.nodes[k];  // a copy: the tracer appends to graph.nodes
    // An operator with graphs inside says itself where a gradient of zero arrives.
    const bool has_graphs = node.op->computed_from != nullptr;
    const bool is_own = node.op->traits_of(node.attrs.get()).ignores_head || (has_graphs && own[k]);
    for (uint32_t i = 0; is_own && i < node.outputs.size(); ++i) {
      const bool flows_here = flows[k][i] && autograd::has_gradient(node.outputs[i].dtype);
      if (flows_here && reached[k][i].is_there) arrived[k][i].add_zeros(node.outputs[i], reached[k][i].presence);
    }
    const ArrivedHeads node_heads(arrived[k]);
    if (arrives) here.add(node_heads.any.presence);
    const auto flows_to = [&](ValueId v) {
      return flows[v.node][v.output] && autograd::has_gradient(graph.meta(v).dtype);
    };
    const auto reach = [&](ValueId v) {
      if (own[v.node] && flows_to(v)) reached[v.node][v.output].add(here.presence);
    };
    if (node.op->traits.flat || (!arrives && !is_own)) {
      for (ValueId v : node.inputs) reach(v);
      continue;
    }
    if (lacks_gradient(*node.op)) refuse_gradient(*node.op);
    tracer.name = node.name + "_grad";
    std::vector<bool> wants;
    for (ValueId v : node.inputs) wants.push_back(flows_to(v));
    std::vector<bool> takes_rows;
    for (ValueId v : node.inputs) takes_rows.push_back(input_with_rows(v).has_value());
    Context context(tracer, node, uint32_t(k), node_heads, wants, std::move(takes_rows));
    tracer.gradient_of = traced_node(node);
    tracer.step = 0;
    tracer.own_inputs.clear();
    for (ValueId v : node.inputs) tracer.own_inputs.push_back(own[v.node] && flows_to(v));
    node.op->grad(node.attrs.get(), context);
    tracer.gradient_of.reset();  // sums of what arrives from several readers are in another order where passes have run
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (context.result[i].is_there() && wants[i]) {
        send(node.inputs[i], std::move(context.result[i]));
      } else if (!has_graphs) {
        reach(node.inputs[i]);
      }
    }
    for (RowPart& part : context.rows) {
      ArrivedRows& to = rows[*input_with_rows(node.inputs[part.input])];
      to.values.push_back(std::move(part.values)), to.indices.push_back(std::move(part.indices));
    }
  }
  form.arrives.assign(num_inputs, Arrives::never);
  for (size_t i = 0; i < num_inputs; ++i) {
    if (!wanted[i]) continue;
    Arrival& a = arrived[graph.inputs[i]][0];
    const TensorMeta m = graph.nodes[graph.inputs[i]].outputs[0];
    if (const Reach& r = reached[graph.inputs[i]][0]; r.is_there) a.add_zeros(m, r.presence);
    if (!form.rows.empty() && form.rows[i]) {
      if (!a.is_there()) {
        if (!rows[i].are_there()) continue;
        form.arrives[i] = Arrives::always;
        for (const auto& parts : {rows[i].values, rows[i].indices}) {
          graph.outputs.push_back(tracer.value(rows[i].all(parts)));
        }
        continue;
      }
      form.rows[i] = false;
      if (rows[i].are_there()) a.add({.gradient = rows[i].dense(m.shape), .presence = NDArray()});
    }
    if (a.is_there() && !(absent.defined() && a.presence.ptr() == absent.ptr())) {
      form.arrives[i] = a.presence.defined() ? Arrives::sometimes : Arrives::always;
    }
    graph.outputs.push_back(tracer.value(a.is_there() ? a.masked() : nd.zeros(m.shape, {.dtype = m.dtype})));
  }
  for (size_t i = 0; form.reports && i < num_inputs; ++i) {
    if (form.arrives[i] != Arrives::sometimes) continue;
    graph.outputs.push_back(tracer.value(arrived[graph.inputs[i]][0].presence));
  }
  return graph;
}

}  // namespace kaon::graph

#include "kaon/mxnet/program/backward_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/history.h"
#include "kaon/graph/ir/variables.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

namespace {

bool stops_gradients(const SymbolNode& node) { return info_of(node)->name == "BlockGrad"; }

// MXNet hands the gradient on, or none, without a node.
bool has_backward_node(const SymbolNode& node) {
  constexpr std::string_view without[] = {"elemwise_add", "_grad_add", "add_n", "BlockGrad"};
  return std::ranges::find(without, info_of(node)->name) == std::end(without);
}

// Only Embedding itself gives rows of a gradient, to an array that it reads as it is.
bool takes_rows(const NDArray& array) {
  const autograd::History* history = autograd::history_of(array);
  return history && !history->node && history->takes_rows();
}

NDArray zeros_like(const NDArray& array) { return nd.zeros_like(In<NDArray>(array, no_site)); }

}  // namespace

NDArray noting_gradient(const NDArray& array, std::function<void(const NDArray& gradient)> note) {
  if (takes_rows(array)) return array;
  const autograd::Function pass([](const NDArray& x) { return x; },
                                [note = std::move(note)](const autograd::FunctionCall& call) {
                                  note(call.heads[0]);
                                  return call.heads[0];
                                });
  return pass(In<NDArray>(array, no_site));
}

void BackwardMonitor::watch(const SymbolNode& node, std::span<NDArray> inputs) {
  std::vector<Input>& noted = (*arrivals_)[&node];
  noted.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    noted[i].given = takes_rows(inputs[i]) ? inputs[i] : inputs[i].detach();  // history holds arrivals_
    noted[i].is_watched = autograd::wants_gradient(inputs[i]);
    if (!noted[i].is_watched) continue;
    inputs[i] = noting_gradient(inputs[i], [arrivals = arrivals_, &node, i](const NDArray& gradient) {
      (*arrivals)[&node][i].gradient = gradient.detach();
    });
  }
}

NodeMonitor BackwardMonitor::noting(NodeMonitor monitor) {
  monitor.before = [this, before = std::move(monitor.before)](const SymbolNode& node, std::span<NDArray> inputs) {
    if (before) before(node, inputs);
    watch(node, inputs);
  };
  return monitor;
}

void BackwardMonitor::report(const std::function<void(const MonitoredArray&)>& call,
                             std::span<const std::pair<size_t, NDArray>> head_gradients, Context context) {
  const autograd::ModeScope mode(false, autograd::is_training());
  std::map<std::pair<const SymbolNode*, uint32_t>, std::vector<NDArray>> parts;  // of gradients, by what they reach
  const auto give = [&](const std::string& name, const SymbolNode& node, const NDArray& array) {
    call({name, node, new_handle(array, context)});
  };
  std::vector<SymbolNode*> nodes = graph::creation_order(program_.entries());
  std::ranges::reverse(nodes);
  for (const SymbolNode* n : nodes) {
    for (const auto& [head, gradient] : head_gradients) {
      const SymbolEntry& e = program_.entries()[head];
      if (e.node.get() != n) continue;
      give(fmt::format("_head_grad_{}_id_output", head), *n, gradient);
      parts[{n, e.output}].push_back(gradient);
    }
    for (uint32_t i = 0; i < n->outputs.size(); ++i) {
      const auto it = parts.find({n, i});
      if (it == parts.end() || it->second.size() < 2) continue;
      NDArray sum = it->second[0];
      for (size_t j = 1; j < it->second.size(); ++j) sum = sum + it->second[j];
      give("sum_grad_output", *n, sum);
    }
    const auto it = arrivals_->find(n);
    if (it == arrivals_->end()) continue;
    std::vector<Input>& inputs = it->second;
    if (stops_gradients(*n) || std::ranges::none_of(inputs, [](const Input& i) { return i.is_watched; })) continue;
    size_t count = 0;
    for (size_t i = 0; i < inputs.size(); ++i) count += graph::updates(*n, i) ? 0 : 1;
    for (size_t i = 0; i < count; ++i) {
      Input& in = inputs[i];
      if (in.is_watched && takes_rows(in.given)) in.gradient = in.given.grad();
      if (in.gradient.defined()) parts[{n->inputs[i].node.get(), n->inputs[i].output}].push_back(in.gradient);
      const NDArray gradient = in.gradient.defined() ? std::exchange(in.gradient, {}) : zeros_like(in.given);
      const std::string number = count == 1 ? "" : std::to_string(i);
      if (has_backward_node(*n)) give(fmt::format("{}_backward_output{}", n->name, number), *n, gradient);
    }
  }
}

}  // namespace kaon::mxnet

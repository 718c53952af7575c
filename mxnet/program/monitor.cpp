#include "kaon/mxnet/program/monitor.h"

#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

namespace {

// Names of inputs for monitors: an operator that has registered none has numbers.
std::vector<std::string> monitored_inputs(const SymbolNode& node, size_t count) {
  if (lists_inputs(node)) return input_names(node, int(count));
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("input{}", i));
  return names;
}

// BatchNorm's 1 / sqrt(var) without the minus by which Kaon marks moving values.
NDArray as_in_mxnet(const SymbolNode& node, size_t output, const NDArray& array) {
  const auto* norm = node.op == &op::BatchNorm::def ? static_cast<const op::BatchNorm*>(node.attrs.get()) : nullptr;
  if (!norm || int(output) != norm->signed_inverse()) return array;
  const autograd::ModeScope mode(false, autograd::is_training());
  return nd.abs(In<NDArray>(array.detach(), no_site));
}

}  // namespace

NodeMonitor monitor_of(std::function<void(const MonitoredArray&)> call, bool all, bool names_variables,
                       Context context) {
  NodeMonitor monitor;
  const auto give = [call = std::move(call), context](const std::string& name, const SymbolNode& node,
                                                      const NDArray& array) {
    call({name, node, new_handle(array.detach(), context)});
  };
  if (all) {
    monitor.before = [give, names_variables](const SymbolNode& node, std::span<NDArray> inputs) {
      const std::vector<std::string> names = monitored_inputs(node, inputs.size());
      for (size_t i = 0; i < inputs.size() && i < names.size(); ++i) {
        const SymbolNode& from = *node.inputs[i].node;
        if (names_variables && !is_operator(from)) give(from.name, node, inputs[i]);
        give(node.name + "_" + names[i], node, inputs[i]);
      }
    };
  }
  monitor.after = [give](const SymbolNode& node, std::span<const NDArray> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined()) give(output_name(node, int(i)), node, as_in_mxnet(node, i, outputs[i]));
    }
  };
  return monitor;
}

}  // namespace kaon::mxnet

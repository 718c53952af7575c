// Monitors: what MXNet's callbacks get of a run node by node.
#pragma once

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/program/node_run.h"

namespace kaon::mxnet {

// Calls with "fc_output" and a new handle, which is the callee's, for each output; with `all` before that for each
// input: "fc_weight", and its own name where it is a variable and `names_variables`.
struct MonitoredArray {
  const std::string& name;
  const SymbolNode& node;  // whose input or output it is
  void* handle;
};
NodeMonitor monitor_of(std::function<void(const MonitoredArray&)> call, bool all, bool names_variables,
                       Context context);

}  // namespace kaon::mxnet

// What monitors see of a backward: the gradients that reach the inputs of each operator.
#pragma once

#include <map>
#include <utility>

#include "kaon/mxnet/program/monitor.h"

namespace kaon::mxnet {

// The same array for a recorded call: each backward calls `note` with the gradient that the call gives it. An array
// that takes rows of its gradient stays as it is, and `note` is not called.
NDArray noting_gradient(const NDArray& array, std::function<void(const NDArray& gradient)> note);

// Notes the gradients of a run that autograd records, for one backward after another. Sees MXNet's nodes of a backward:
// the gradient at a head, one array for each input of an operator, and the sum where several operators read an array.
// Left out are the nodes that MXNet inserts in some gradients (copies, and zeros for outputs that nothing reads) and
// the inputs of nodes. Thread safety: one thread at a time.
class BackwardMonitor {
 public:
  explicit BackwardMonitor(Symbol program) : program_(std::move(program)) {}
  BackwardMonitor(const BackwardMonitor&) = delete;
  BackwardMonitor& operator=(const BackwardMonitor&) = delete;

  // `monitor`, which notes gradients as well, for a run of the program. Must not be called after *this is gone.
  NodeMonitor noting(NodeMonitor monitor);
  // After a backward from heads with their numbers: calls with "act_backward_output", "fc_backward_output0",
  // "_head_grad_0_id_output" and "sum_grad_output" and new handles, in the reverse order of the run. Zeros stand for
  // gradients of a watched operator that were not computed.
  void report(const std::function<void(const MonitoredArray&)>& call,
              std::span<const std::pair<size_t, NDArray>> head_gradients, Context context);

 private:
  struct Input {
    NDArray given;     // what the program gave the operator
    NDArray gradient;  // since the last report; undefined: none
    bool is_watched = false;
  };
  using Arrivals = std::map<const SymbolNode*, std::vector<Input>>;
  void watch(const SymbolNode& node, std::span<NDArray> inputs);

  Symbol program_;
  std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();  // recorded calls hold it too
};

}  // namespace kaon::mxnet

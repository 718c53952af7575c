// autograd::Function: calls whose gradients the program computes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/tape.h"
#include "kaon/ops/functions.h"

namespace kaon::autograd {

using namespace graph;

namespace {

// The backward of a Function of the program.
class ProgramGradFunction final : public GradFunction {
 public:
  ProgramGradFunction(std::span<const NDArray* const> inputs, std::span<const NDArray> outputs,
                      std::shared_ptr<const detail::FunctionBackward> backward, const std::source_location& site)
      : backward_(std::move(backward)), site_(site) {
    for (const NDArray* i : inputs) inputs_.emplace_back(*i);
    for (const NDArray& o : outputs) outputs_.emplace_back(o.detach());  // o itself would be a reference cycle
  }

  void backward(const GradCall& call) override {
    std::vector<NDArray> inputs, outputs, heads;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(unchanged("input", i, inputs_[i]));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const NDArray& o = unchanged("output", i, outputs_[i]);
      outputs.push_back(is_recording() ? recorded_output(o, i, node) : o);
      heads.push_back(call.heads[i].defined() ? call.heads[i] : nd.zeros_like(o));
    }
    std::vector<NDArray> gradients = (*backward_)({.inputs = inputs, .outputs = outputs, .heads = heads});
    if (gradients.size() != inputs.size()) {
      throw ValueError(fmt::format("[Function] backward gave {} gradients for {} inputs; recorded at {}",
                                   gradients.size(), inputs.size(), describe(site_)));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!call.wanted[i] || !gradients[i].defined()) continue;
      check(inputs[i], gradients[i], i);
      call.gradients[i] = std::move(gradients[i]);
    }
  }
  // The program's function may be a loss, whose gradient is its own.
  NDArray own_head(size_t i) const override {
    return outputs_.empty() ? NDArray() : autograd::filled_like(outputs_[i].array, 0);
  }
  // What backward captures may hold an output, and so this call.
  void release() override { inputs_.clear(), outputs_.clear(), backward_.reset(); }

 private:
  const NDArray& unchanged(const char* kind, size_t i, const SavedArray& saved) const {
    if (saved.is_changed()) report_changed("Function", fmt::format("{} {}", kind, i), saved, site_);
    return saved.array;
  }
  void check(const NDArray& input, const NDArray& gradient, size_t i) const {
    if (gradient.shape() != input.shape()) {
      throw ShapeError(fmt::format("[Function] the gradient of input {} has shape {}, the input {}; recorded at {}", i,
                                   gradient.shape().str(), input.shape().str(), describe(site_)));
    }
    if (gradient.dtype() != input.dtype()) {
      throw TypeError(fmt::format("[Function] the gradient of input {} has dtype {}, the input {}; recorded at {}", i,
                                  name_of(gradient.dtype()), name_of(input.dtype()), describe(site_)));
    }
  }
  std::shared_ptr<const detail::FunctionBackward> backward_;
  std::source_location site_;
  std::vector<SavedArray> inputs_, outputs_;
};

}  // namespace

std::vector<NDArray> detail::call_function(std::span<const NDArray* const> inputs,
                                           FunctionRef<std::vector<NDArray>()> forward,
                                           const std::shared_ptr<const FunctionBackward>& backward,
                                           const std::source_location& site) {
  if (thread_context().tracing) refuse_function_in_trace();
  for (const NDArray* i : inputs) i->node();  // throws for a handle without array
  std::vector<NDArray> outputs;
  {
    const ModeScope unrecorded(false, is_training());
    outputs = forward();
  }
  // arrays of their own, also where forward returns an input
  for (NDArray& o : outputs) o = o.detach();
  const bool is_wanted = std::any_of(inputs.begin(), inputs.end(), [](const NDArray* i) { return wants_gradient(*i); });
  if (is_recording() && is_wanted && !outputs.empty()) {
    record_call("Function", std::make_unique<ProgramGradFunction>(inputs, outputs, backward, site), inputs, outputs);
  }
  return outputs;
}

void detail::refuse_function_in_trace() {
  throw TraceError("[Function] a trace cannot hold functions of the program; write an operator (kaon/ops/op_def.h)");
}

}  // namespace kaon::autograd

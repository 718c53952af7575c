// Operators of a program as nodes of a traced graph: what a plan runs calls the program's functions.
#pragma once

#include <memory>

#include "kaon/mxnet/custom/custom_prop.h"
#include "kaon/ops/op_def.h"

namespace kaon::mxnet {

namespace op {

// Runs forward on the thread that runs the operation, with copies of its arrays, and waits for what it has pushed: the
// engine lets a thread that waits run other operations. The arrays are states, which are updated, then inputs.
template <int num_states>
struct Callback {
  static constexpr int states = num_states;
  int64_t node = 0;
  int inputs = 0, outputs = 0;
  static constexpr OpTraits traits{.name = "_mxnet_callback",
                                   .variadic = true,
                                   .mutates = (uint32_t(1) << num_states) - 1,
                                   .mode_dependent = true,
                                   .in_mxnet = false,
                                   .ignores_head = true};  // it may be a loss
  static constexpr void fields(auto field) {
    field("node", &Callback::node);
    field("inputs", &Callback::inputs);
    field("outputs", &Callback::outputs);
  }
  static const OpDef def;
  int num_inputs() const { return states + inputs; }
  int num_outputs() const { return outputs; }
  void infer(InferContext& c) const;
  void grad(GradContext& c) const;
};
template <int num_states>
void run_cpu(const Callback<num_states>& op, KernelContext& c);

// The gradients of the inputs: of gradients of the outputs, inputs, outputs and states, in this order.
struct CallbackGradient {
  int64_t node = 0;
  int inputs = 0, states = 0, outputs = 0;
  static constexpr OpTraits traits{
      .name = "_mxnet_callback_gradient", .variadic = true, .mode_dependent = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("node", &CallbackGradient::node);
    field("inputs", &CallbackGradient::inputs);
    field("states", &CallbackGradient::states);
    field("outputs", &CallbackGradient::outputs);
  }
  static const OpDef def;
  int num_inputs() const { return 2 * outputs + inputs + states; }
  int num_outputs() const { return inputs; }
  void infer(InferContext& c) const;
};
void run_cpu(const CallbackGradient& op, KernelContext& c);

}  // namespace op

// Applies a node of the property to traced arrays, inputs then states. Throws ValueError for more than 8 states.
std::vector<NDArray> trace_callback(const std::shared_ptr<const CustomProp>& prop,
                                    std::span<const NDArray* const> inputs);

}  // namespace kaon::mxnet

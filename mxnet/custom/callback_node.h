// Operators of a program as nodes of a traced graph: what a plan runs calls the program's functions.
#pragma once

#include <memory>

#include "kaon/mxnet/custom/custom_prop.h"
#include "kaon/ops/op_def.h"

namespace kaon::mxnet {

// A number for a node of this property, for the attributes below. Thread safety: any thread.
int64_t new_callback_node(std::shared_ptr<const CustomProp> prop);

namespace op {

// Runs forward on the thread that runs the operation, with copies of its arrays, and waits for what it has pushed: the
// engine lets a thread that waits run other operations. The arrays are inputs, then states.
struct Callback {
  int64_t node = 0;
  int inputs = 0, states = 0, outputs = 0;
  static constexpr OpTraits traits{
      .name = "_mxnet_callback", .variadic = true, .mode_dependent = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("node", &Callback::node);
    field("inputs", &Callback::inputs);
    field("states", &Callback::states);
    field("outputs", &Callback::outputs);
  }
  static const OpDef def;
  int num_inputs() const { return inputs + states; }
  int num_outputs() const { return outputs; }
  const OpTraits& traits_of() const;  // the states are updated
  void infer(InferContext& c) const;
  void grad(GradContext& c) const;
};
void run_cpu(const Callback& op, KernelContext& c);

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

}  // namespace kaon::mxnet
